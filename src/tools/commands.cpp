#include "commands.hpp"

#include <sepal/keyspace/keyspace.hpp>

#include <cstdio>
#include <random>
#include <unistd.h>

namespace sepal::tools {

int refuse(const char* command, const std::string& why) {
  std::fprintf(stderr, "sepal %s: %s\n", command, why.c_str());
  return exit_refused;
}

std::uint64_t drawn_seed() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

std::string refuse_sign(const std::string& text) {
  return text.starts_with('-') ? "a number below zero" : "";
}

std::string refuse_long_key(const std::string& key) {
  return key.size() > keyspace::key_bytes_max ? "a key that is too long" : "";
}

void add_growth_options(CLI::App& command, std::uint32_t& expansion) {
  CLI::Option* option =
      command.add_option("--expansion", expansion, "A new layer holds this many times the last")
          ->capture_default_str()
          ->check(refuse_sign);
  command
      .add_flag_callback(
          "--nonscaling", [&expansion] { expansion = 0; }, "The filter refuses what is above its capacity")
      ->excludes(option);
}

Progress::Style progress_style(bool quiet) {
  if (quiet) return Progress::Style::none;
  return ::isatty(STDERR_FILENO) == 1 ? Progress::Style::bar : Progress::Style::lines;
}

}  // namespace sepal::tools
