#include "options.hpp"

#include <functional>
#include <map>

namespace rload {
namespace {

constexpr const char* command_separator = "--then";

[[noreturn]] void explain() {
  std::fprintf(stderr,
               "usage: rload [--port P] [--host H] [--unix PATH] [--password W] [--conns C] [--pipeline N]\n"
               "             [--requests N] [--rate N] [--seconds S] [--range R] [--start N] [--seed N] "
               "[--pid PID]\n"
               "             [--prepare MB] COMMAND ARGUMENT... [--then COMMAND ARGUMENT...]...\n");
  std::exit(exit_usage);
}

void read_commands(char** from, char** to, Options& options) {
  options.commands.emplace_back();
  for (; from != to; ++from) {
    if (std::strcmp(*from, command_separator) == 0) {
      options.commands.emplace_back();
    } else {
      options.commands.back().emplace_back(*from);
    }
  }
  for (const auto& command : options.commands) {
    if (command.empty() || command[0].starts_with("--")) explain();
  }
}

}  // namespace

Options read_options(int argc, char** argv) {
  Options options;
  const auto text = [](std::string& to) { return [&to](const char* v) { to = v; }; };
  const auto small = [](int& to) { return [&to](const char* v) { to = std::atoi(v); }; };
  const auto large = [](std::uint64_t& to) {
    return [&to](const char* v) { to = std::strtoull(v, nullptr, 10); };
  };
  const std::map<std::string, std::function<void(const char*)>> flags{
      {"--host", text(options.host)},
      {"--unix", text(options.unix_path)},
      {"--password", text(options.password)},
      {"--port", small(options.port)},
      {"--conns", small(options.connection_count)},
      {"--pipeline", small(options.pipeline)},
      {"--pid", small(options.server_pid)},
      {"--requests", large(options.requests)},
      {"--rate", large(options.requests_per_second)},
      {"--range", large(options.range)},
      {"--seed", large(options.seed)},
      {"--seconds", large(options.seconds)},
      {"--start", large(options.sequence_start)},
      {"--prepare", large(options.prepared_megabytes)},
  };
  int at = 1;
  for (; at + 1 < argc && flags.contains(argv[at]); at += 2) flags.at(argv[at])(argv[at + 1]);
  read_commands(argv + at, argv + argc, options);
  if (options.connection_count < 1 || options.pipeline < 1 || options.range < 1) explain();
  return options;
}

}  // namespace rload
