// The command lines of the tools. Each adds a subcommand, which does its work while the line is parsed and
// then sets the exit status of the program.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <string>

#include "progress.hpp"

namespace sepal::tools {

// The exit statuses.
inline constexpr int exit_good = 0;
inline constexpr int exit_refused = 1;  // damaged, or it could not be done
inline constexpr int exit_usage = 2;    // the command line is wrong

void add_plan_command(CLI::App& tools, int& exit_status);
void add_build_command(CLI::App& tools, int& exit_status);
void add_merge_command(CLI::App& tools, int& exit_status);
void add_verify_command(CLI::App& tools, int& exit_status);
void add_inspect_command(CLI::App& tools, int& exit_status);
void add_salvage_command(CLI::App& tools, int& exit_status);

// What the commands have in common.

// Says on standard error why the command did not do its work. Returns exit_refused.
int refuse(const char* command, const std::string& why);

// Of new filters, where nobody gave one.
[[nodiscard]] std::uint64_t drawn_seed();

// For CLI::Option::check(): each says what is wrong, or nothing. The library reads a number with a minus sign
// as a huge one.
[[nodiscard]] std::string refuse_sign(const std::string& text);
[[nodiscard]] std::string refuse_long_key(const std::string& key);

// --expansion and --nonscaling.
void add_growth_options(CLI::App& command, std::uint32_t& expansion);

// On standard error: a bar if that is a terminal.
[[nodiscard]] Progress::Style progress_style(bool quiet);

}  // namespace sepal::tools
