// The files that sepald reads at its start and once more at SIGHUP: users, certificates, the password.
#pragma once

#include <sepal/base/gate.hpp>
#include <sepal/base/mutex.hpp>
#include <sepal/base/result.hpp>
#include <sepal/command/run/services.hpp>
#include <sepal/command/users/users.hpp>
#include <sepal/settings/configuration.hpp>
#include <sepal/settings/settings.hpp>
#include <sepal/tls/context.hpp>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "app/system/service_manager.hpp"
#include "app/threads/background.hpp"

namespace sepal::app {

// Confined to the main thread until serves(); then members say which thread calls them.
class Reload {
 public:
  // `settings` are guarded by the gate once clients are served.
  Reload(settings::Settings& settings, Gate& gate, Background& background, ServiceManager& manager)
      : settings_(settings), gate_(gate), background_(background), manager_(manager) {}

  Result<void> read_users();
  // Reads certificates and keys, where a port speaks TLS.
  Result<void> read_tls();
  // The users of the ACL file, once; nothing without a file.
  [[nodiscard]] std::optional<command::UserTable> take_users() { return std::exchange(users_at_start_, {}); }
  [[nodiscard]] tls::Current& tls() { return tls_; }

  // The services are there. They outlive the background thread's work.
  void serves(command::Services& services) { services_ = &services; }

  // Called with the gate closed. Reads the files that other options name; they take effect when the result is
  // called.
  [[nodiscard]] Result<settings::Configuration::Adopt> read_tls_for(const tls::Options& options);
  // Has the background thread read the files anew. `log_error`: why the log file was not opened anew; empty
  // if it was. False: the settings name no file. Any thread.
  bool reload(const std::string& log_error);
  // How the last reload ended. Any thread.
  [[nodiscard]] command::ReloadStatus status() const {
    const MutexLock lock(mutex_);
    return status_;
  }

  // Makes the users of the ACL file the users. On the background thread, as the next: closes the gate.
  Result<void> load_users();
  // sepald itself has written the ACL file: that is no reason to read it anew at SIGHUP.
  void users_written(const std::string& text) { users_text_ = text; }

 private:
  void adopt_tls(const std::shared_ptr<const tls::Context>& context);
  Result<void> adopt_users(const std::string& text);  // of the ACL file
  Result<void> reload_users();
  Result<void> reload_tls();
  Result<void> reload_password();

  settings::Settings& settings_;
  Gate& gate_;
  Background& background_;
  ServiceManager& manager_;
  command::Services* services_ = nullptr;  // null until serves()
  tls::Current tls_;
  std::optional<command::UserTable> users_at_start_;
  // The ACL file as it was last read or written. Of the background thread, once clients are served.
  std::optional<std::string> users_text_;
  mutable Mutex mutex_;  // Lock order: the innermost.
  command::ReloadStatus status_ SEPAL_GUARDED_BY(mutex_);
};

}  // namespace sepal::app
