#include "app/start/reload.hpp"

#include <sepal/command/run/client_users.hpp>
#include <sepal/log/event.hpp>
#include <sepal/settings/acl_file.hpp>
#include <sepal/settings/password.hpp>

#include <chrono>
#include <cstdint>
#include <string>

namespace sepal::app {

// Before anything else: a wrong ACL file must not let clients in.
Result<void> Reload::read_users() {
  if (settings_.acl_file.empty()) return {};
  const auto text = settings::read_acl_file(settings_.acl_file);
  if (!text) return text.error();
  auto users = command::parse_users(*text, settings_.acl_file);
  if (!users) return users.error();
  log::info("users_read", "users read", {{"file", settings_.acl_file}, {"users", users->size()}});
  users_at_start_ = std::move(*users);
  // A later SIGHUP compares the file with this text (reload_users).
  users_text_ = *text;
  return {};
}

Result<void> Reload::read_tls() {
  if (!settings::uses_tls(settings_)) return {};
  auto context = tls::Context::load(settings_.tls);
  if (!context) return context.error();
  adopt_tls(*context);
  return {};
}

// The log speaks of it when it is in use.
void Reload::adopt_tls(const std::shared_ptr<const tls::Context>& context) {
  tls_.set(context);
  const tls::Certificate& certificate = context->certificate();
  log::info("certificate_read", "certificate read",
            {{"subject", certificate.subject},
             {"serial", certificate.serial},
             {"not_after", certificate.not_after}});
  const std::int64_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  if (certificate.starts_at > now) {
    log::warn("certificate_not_valid", "the certificate is not valid yet",
              {{"not_before", certificate.not_before}, {"advice", "check the clock, or the certificate"}});
  } else if (certificate.ends_at <= now) {
    log::warn("certificate_not_valid", "the certificate is not valid any more",
              {{"not_after", certificate.not_after}, {"advice", "renew tls_cert_file"}});
  }
}

// Without a port that speaks TLS, the values are only kept.
Result<settings::Configuration::Adopt> Reload::read_tls_for(const tls::Options& options) {
  if (!settings::uses_tls(settings_)) return settings::Configuration::Adopt([] {});
  auto context = tls::Context::load(options);
  if (!context) return context.error();
  return settings::Configuration::Adopt([this, context = std::move(*context)] { adopt_tls(context); });
}

// The files are read by the background thread: they may be on a slow disk. An error leaves everything as it
// was.
bool Reload::reload(const std::string& log_error) {
  const bool has_tls = settings::uses_tls(settings_);
  if (settings_.password_file.empty() && settings_.acl_file.empty() && settings_.log.file.empty() && !has_tls)
    return false;
  // One wrong file does not keep the remaining files from being read.
  background_.post([this, has_tls, log_error] {
    std::string errors = log_error.empty() ? "" : "log not opened anew: " + log_error;
    const auto note = [&](const char* what, const Error& error) {
      errors += (errors.empty() ? "" : "; ") + std::string(what) + " not read anew: " + error.detail;
    };
    if (has_tls)
      if (const auto done = reload_tls(); !done) {
        log::error("certificates_not_read", "certificates not read anew, the old ones stay in use",
                   {{"reason", done.error().detail}});
        note("certificates", done.error());
      }
    // The password comes before the users: their file may leave the password of `default` to it.
    if (const auto done = reload_password(); !done) {
      log::error("password_not_read", "password not read anew", {{"reason", done.error().detail}});
      note("password", done.error());
    }
    if (const auto done = reload_users(); !done) {
      log::error("users_not_read", "users not read anew", {{"reason", done.error().detail}});
      note("users", done.error());
    }
    {
      const MutexLock lock(mutex_);
      status_ = {.last_ok = errors.empty(), .last_error = errors};
    }
    manager_.reloaded(errors);
  });
  return true;
}

// A new certificate or log must not undo what ACL SETUSER has changed since the file was read or written.
Result<void> Reload::reload_users() {
  if (settings_.acl_file.empty()) return {};
  const auto text = settings::read_acl_file(settings_.acl_file);
  if (!text) return text.error();
  if (*text != users_text_) return adopt_users(*text);
  log::info("users_unchanged", "users not read anew: their file has not changed",
            {{"file", settings_.acl_file}});
  return {};
}

Result<void> Reload::reload_tls() {
  tls::Options options;
  {
    const GateClosed closed(gate_);
    // A copy: the files are read outside the gate.
    options = settings_.tls;
  }
  auto context = tls::Context::load(options);
  if (!context) return context.error();
  adopt_tls(*context);
  return {};
}

Result<void> Reload::reload_password() {
  if (settings_.password_file.empty()) return {};
  auto password = settings::read_password_file(settings_.password_file);
  if (!password) return password.error();
  {
    const GateClosed closed(gate_);
    // The file of users may leave the password of `default` to this one, so it is read in any case.
    if (settings_.runtime.password != *password) users_text_.reset();
    settings_.runtime.password = std::move(*password);
    // With an ACL file, its reading decides whether `default` has this password.
    if (settings_.acl_file.empty()) services_->users->set_default_password(settings_.runtime.password);
  }
  log::info("password_read", "password read anew", {{"file", settings_.password_file}});
  return {};
}

Result<void> Reload::load_users() {
  const auto text = settings::read_acl_file(settings_.acl_file);
  return text ? adopt_users(*text) : text.error();
}

Result<void> Reload::adopt_users(const std::string& text) {
  auto users = command::parse_users(text, settings_.acl_file);
  if (!users) return fail(users.error().code, users.error().detail + "; the users are as they were");
  users_text_ = text;
  const std::size_t count = users->size();
  command::RemovedUsers removed;
  {
    const GateClosed closed(gate_);
    command::Services& services = *services_;
    removed = services.users->adopt(std::move(*users), settings_.runtime.password);
    services.keyspace.count_others(services.users->byte_count());
    // Before the gate opens: clients have pointers to the removed users, which end with this function.
    command::dismiss(removed, services.clients, nullptr);
  }
  log::info("users_loaded", "users loaded",
            {{"file", settings_.acl_file}, {"users", count}, {"removed", removed.size()}});
  return {};
}

}  // namespace sepal::app
