// sepald: reads the settings, runs the daemon, ends with 0 after an orderly stop.
#include <sepal/base/thread.hpp>
#include <sepal/base/version.hpp>
#include <sepal/settings/settings.hpp>

#include <spdlog/spdlog.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "daemon.hpp"
#include "healthcheck.hpp"
#include "logging.hpp"
#include "machine.hpp"
#include "stop_signal.hpp"

namespace {

// Exit statuses. 1: could not start, could not save, or is not healthy. 2: the command line or the
// configuration is wrong.
constexpr int exit_failed = 1;
constexpr int exit_usage = 2;

int complain(const sepal::Error& error, int status) {
  std::fprintf(stderr, "sepald: %s\n", error.detail.c_str());
  return status;
}

// Other programs run this, so the line names neither the level of the log nor the time.
int tell_health(const sepal::settings::Settings& settings) {
  const auto health = sepal::app::check_health(settings);
  if (!health)
    return complain(sepal::fail(health.error().code, "not healthy: " + health.error().detail), exit_failed);
  std::printf("healthy: %s\n", health->c_str());
  return 0;
}

// If the system gives no thread or no memory, the libraries throw. That ends here.
int run(sepal::settings::Settings settings) {
  try {
    sepal::app::StopSignal stop_signal(std::chrono::seconds(settings.stop_seconds_max));
    sepal::app::Daemon daemon(std::move(settings), stop_signal);
    return daemon.run() ? 0 : exit_failed;
  } catch (const std::exception& problem) {
    spdlog::error("the system gave too little: {}", problem.what());
    return exit_failed;
  }
}

}  // namespace

// An exception this early is reported and ends the process.
// NOLINTNEXTLINE(bugprone-exception-escape)
int main(int argc, char** argv) {
  using sepal::settings::Invocation;
  sepal::app::prepare_allocator();
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  auto invocation = sepal::settings::read_invocation(arguments, sepal::version_line("sepald"));
  if (!invocation) return complain(invocation.error(), exit_usage);
  if (invocation->action == Invocation::Action::check_health) return tell_health(invocation->settings);
  if (invocation->action != Invocation::Action::run) {
    std::fputs(invocation->text.c_str(), stdout);
    return 0;
  }
  sepal::settings::Settings& settings = invocation->settings;
  if (const auto logging = sepal::app::start_logging(settings.log, settings.runtime.log_level); !logging) {
    return complain(logging.error(), exit_failed);
  }
  if (const auto asked = sepal::ask_for_short_slices(); !asked)
    spdlog::info("no short slices: reason=\"{}\"", asked.error().detail);
  return run(std::move(settings));
}
