#include "tools/data/permission.hpp"

#include <cerrno>
#include <string>

#include "tools/shell/text.hpp"

namespace sepal::tools {
namespace {

constexpr const char* user_advice = "; run sepal as root or as the user of the server";

// Not by the code: Errc::read_only also stands for a file system that is mounted so, where no other user
// would help.
bool is_denied(const Error& error) {
  return error.detail.ends_with(reason_text(EACCES));
}

Error may_not_read(const std::filesystem::path& path) {
  return fail(Errc::read_only, "cannot read " + path.string() + ": " + reason_text(EACCES) + user_advice);
}

}  // namespace

Result<void> require_readable(storage::Disk& disk, const std::filesystem::path& folder) {
  if (const auto names = disk.list(folder); !names && is_denied(names.error())) return may_not_read(folder);
  // The server's umask takes these from all other users, also where the folder lets them in.
  for (const char* const name : {"SEED", "CURRENT"}) {
    const auto file = disk.open(folder / name);
    if (!file && is_denied(file.error())) return may_not_read(folder / name);
  }
  return {};
}

Error with_user_advice(const Error& error) {
  return is_denied(error) ? fail(error.code, error.detail + user_advice) : error;
}

Error with_folder_advice(const Error& error) {
  return is_denied(error) ? fail(error.code, error.detail + "; name a folder that this user may write to")
                          : error;
}

}  // namespace sepal::tools
