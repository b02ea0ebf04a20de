#include "app/start/file_check.hpp"

#include <sepal/command/users/users.hpp>
#include <sepal/http/server.hpp>
#include <sepal/settings/acl_file.hpp>
#include <sepal/tls/context.hpp>

#include "app/system/privileges.hpp"
#include "app/threads/import_folder.hpp"

namespace sepal::app {
namespace {

Result<void> check_users(const std::string& file) {
  if (file.empty()) return {};
  const auto text = settings::read_acl_file(file);
  if (!text) return text.error();
  const auto users = command::parse_users(*text, file);
  return users ? Result<void>() : users.error();
}

Result<void> check_tls(const settings::Settings& settings) {
  if (!settings::uses_tls(settings)) return {};
  const auto context = tls::Context::load(settings.tls);
  return context ? Result<void>() : context.error();
}

}  // namespace

Result<void> check_files(const settings::Settings& settings) {
  if (auto there = require_user(settings.user); !there) return there;
  if (auto read = check_users(settings.acl_file); !read) return read;
  if (auto read = check_tls(settings); !read) return read;
  if (!settings.import_directory.empty())
    if (auto apart = check_import_folder(settings.import_directory, settings.data_directory); !apart)
      return apart;
  return settings.http.port == 0 ? Result<void>() : http::check_address(settings.http.bind);
}

}  // namespace sepal::app
