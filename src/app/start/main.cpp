// sepald: reads the settings, runs the daemon, ends with 0 after an orderly stop.
#include <sepal/base/memory_reserve.hpp>
#include <sepal/base/thread.hpp>
#include <sepal/bloom/kernel/choice.hpp>
#include <sepal/log/event.hpp>
#include <sepal/log/standard_streams.hpp>
#include <sepal/settings/settings.hpp>
#include <sepal/tls/memory.hpp>

#include <chrono>
#include <cstdio>
#include <exception>
#include <string>
#include <sys/stat.h>
#include <utility>
#include <vector>

#include "app/start/daemon.hpp"
#include "app/start/file_check.hpp"
#include "app/start/healthcheck.hpp"
#include "app/system/crash_report.hpp"
#include "app/system/hang_up.hpp"
#include "app/system/logging.hpp"
#include "app/system/machine.hpp"
#include "app/system/privileges.hpp"
#include "app/system/service_manager.hpp"
#include "app/threads/stop_signal.hpp"

namespace {

// Exit statuses. 1: could not start, could not save, or is not healthy. 2: the command line or the
// configuration is wrong. A service manager may try again after 1, and not after 2.
constexpr int exit_failed = 1;
constexpr int exit_usage = 2;

// What sepald writes (data, logs, exported filters, the ACL file) has keys and passwords' digests in it. The
// UNIX socket has a mode of its own.
constexpr mode_t only_for_its_user = 0077;

int complain(const sepal::Error& error, int status) {
  sepal::app::complain(error.detail);
  return status;
}

int print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  const auto written = sepal::log::written_out();
  return written ? 0 : complain(written.error(), exit_failed);
}

// Other programs run this, so the line names neither the level of the log nor the time. The exit status is
// about the server alone: a healthy one must not be started anew because the line could not be printed.
int tell_health(const sepal::settings::Settings& settings) {
  const auto health = sepal::app::check_health(settings);
  if (!health)
    return complain(sepal::fail(health.error().code, "not healthy: " + health.error().detail), exit_failed);
  static_cast<void>(print("healthy: " + *health + "\n"));
  return 0;
}

int check_config(const sepal::settings::Invocation& invocation) {
  if (const auto checked = sepal::app::check_files(invocation.settings); !checked)
    return complain(checked.error(), exit_failed);
  return print(invocation.text);
}

// If the system gives no thread or no memory, the libraries throw. That ends here.
int run(sepal::settings::Settings settings, sepal::app::Privileges& privileges) {
  try {
    // In this order: the manager reads the environment, and the signals are blocked, before another thread
    // starts.
    sepal::app::ServiceManager manager;
    sepal::app::StopSignal stop_signal(std::chrono::seconds(settings.stop_seconds_max), manager);
    sepal::app::Daemon daemon(std::move(settings), stop_signal, manager, privileges);
    return daemon.run() ? 0 : exit_failed;
  } catch (const std::exception& problem) {
    sepal::app::log_too_little(problem.what());
    return exit_failed;
  }
}

}  // namespace

// An exception this early is reported and ends the process.
int main(int argc, char** argv) {
  using sepal::settings::Invocation;
  sepal::app::hold_hang_up();
  // Both before anything else: no file is open and no file is written yet.
  sepal::log::keep_standard_streams();
  ::umask(only_for_its_user);
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  auto invocation = sepal::settings::read_invocation(arguments, sepal::bloom::version_and_kernel("sepald"));
  if (!invocation)
    return complain(invocation.error(),
                    invocation.error().code == sepal::Errc::invalid_setting ? exit_usage : exit_failed);
  if (invocation->action != Invocation::Action::run) sepal::app::release_hang_up();
  if (invocation->action == Invocation::Action::check_health) return tell_health(invocation->settings);
  if (const auto checked = sepal::bloom::check_kernel(); !checked)
    return complain(checked.error(), exit_usage);
  if (invocation->action == Invocation::Action::check_config) return check_config(*invocation);
  if (invocation->action != Invocation::Action::run) return print(invocation->text);
  sepal::settings::Settings& settings = invocation->settings;
  if (const auto logging = sepal::app::start_logging(settings.log, settings.runtime.log_level); !logging) {
    return complain(logging.error(), exit_failed);
  }
  sepal::memory_reserve::begin();
  sepal::tls::use_memory_reserve();
  sepal::app::install_crash_report(sepal::bloom::version_and_kernel("sepald"));
  // Before any other thread, because threads inherit it (decisions/0016).
  if (const auto asked = sepal::ask_for_short_slices(); !asked)
    sepal::log::info("no_short_slices", "no short slices", {{"reason", asked.error().detail}});
  sepal::app::Privileges privileges;
  const auto begun =
      privileges.begin(settings.user, {.log = settings.log.file, .data_directory = settings.data_directory});
  if (!begun) {
    sepal::app::log_start_failed(begun.error().detail);
    return exit_failed;
  }
  if (privileges.is_root_unasked())
    sepal::log::warn("runs_as_root", "runs as root",
                     {{"advice", "name the user that sepald is to become: the setting user"}});
  return run(std::move(settings), privileges);
}
