// The commands of sepal, each with its flags.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "tools/shell/command_line.hpp"
#include "tools/shell/progress.hpp"

namespace sepal::tools {

void add_plan_command(CommandLine& line);
void add_build_command(CommandLine& line);
void add_merge_command(CommandLine& line);
void add_convert_command(CommandLine& line);
void add_migrate_command(CommandLine& line);
void add_backup_command(CommandLine& line);
void add_restore_command(CommandLine& line);
void add_verify_command(CommandLine& line);
void add_inspect_command(CommandLine& line);
void add_salvage_command(CommandLine& line);

// Parts that several commands share.

// Writes to standard error why the command failed. Returns exit_refused.
int refuse(const char* command, const std::string& why);
// The same where flags contradict each other. Returns exit_usage.
int refuse_usage(const char* command, const std::string& why);

// From here on only the user of the process can read what it creates. For commands that write a backup or a
// data directory, which have all keys: keys can be confidential.
void make_files_private();

// Flags of several commands.
void add_growth_flags(CLI::App& command, std::uint32_t& expansion);  // --expansion and --nonscaling
void add_key_flag(CLI::App& command, const std::string& help, TakeText take);
void add_output_flag(CLI::App& command, std::filesystem::path& output);
void add_quiet_flag(CLI::App& command, bool& quiet);

// The style of the progress on standard error: a bar if that is a terminal.
[[nodiscard]] Progress::Style progress_style(bool quiet);

}  // namespace sepal::tools
