// The options of the command line.
#pragma once

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace rload {

inline constexpr int exit_usage = 2;
inline constexpr int exit_failed = 3;

struct Options {
  std::string host = "127.0.0.1";
  std::string unix_path;
  std::string password;
  int port = 6379;
  int connection_count = 50;
  int pipeline = 1;
  int server_pid = 0;  // 0: found by its port
  std::uint64_t requests = 100'000;
  std::uint64_t requests_per_second = 0;  // 0: as many as the server answers
  std::uint64_t range = 1'000'000;
  std::uint64_t seed = 1;
  std::uint64_t seconds = 0;  // 0: until all requests are answered
  std::uint64_t sequence_start = 0;
  std::uint64_t prepared_megabytes = 256;          // most memory for batches, besides one for each connection
  std::vector<std::vector<std::string>> commands;  // their batches take turns; at least one, none empty
};

// If the command line is wrong, prints how to use the program, and ends it.
Options read_options(int argc, char** argv);

[[noreturn]] inline void give_up(const char* what, int status = exit_failed) {
  std::fprintf(stderr, "rload: %s%s%s\n", what, errno != 0 ? ": " : "",
               errno != 0 ? std::strerror(errno) : "");
  std::exit(status);
}

}  // namespace rload
