// `sepal backup` and `sepal restore`: their arguments, and the lines that they print.
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "tools/data/backup.hpp"
#include "tools/data/kept_backups.hpp"
#include "tools/data/permission.hpp"
#include "tools/redis/tls_flags.hpp"
#include "tools/shell/commands.hpp"
#include "tools/shell/text.hpp"

namespace sepal::tools {
namespace {

constexpr std::uint64_t keep_max = 10'000;
constexpr const char* usual_server = "redis://127.0.0.1:6379";

struct BackupArguments {
  BackupRequest request;
  std::string server;
  std::size_t keep = 0;  // 0: the backup has the name that was given
  bool copies_all = false;
  bool quiet = false;
};

struct RestoreArguments {
  RestoreRequest request;
  bool quiet = false;
};

std::string password_of_environment() {
  // No other thread changes the environment.
  const char* const value = std::getenv("SEPAL_PASSWORD");  // NOLINT(concurrency-mt-unsafe)
  return value == nullptr ? "" : value;
}

std::string time_text(WallTime time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32];
  const std::size_t length = std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts);
  return {text, length};
}

void print(const storage::CopyReport& copy) {
  if (copy.generation.empty()) {
    std::puts("data     nothing has been saved yet; all changes are in the journal");
  } else {
    std::printf("data     %llu keys, with %llu items, saved at %s\n", wide(copy.keys), wide(copy.items),
                time_text(copy.saved_at).c_str());
  }
  std::printf("journal  %s of files, which have the changes since that save began\n",
              bytes_text(copy.journal_bytes).c_str());
  std::printf("size     %s", bytes_text(copy.bytes).c_str());
  if (copy.linked_bytes != 0)
    std::printf(", of which %s take no room: they are links", bytes_text(copy.linked_bytes).c_str());
  std::printf("\nverified: a start will load this\n");
}

int make_one(const BackupArguments& arguments) {
  Progress progress(stderr, progress_style(arguments.quiet));
  const auto report = make_backup(arguments.request, progress);
  progress.end();
  if (!report) return refuse("backup", report.error().detail);
  if (arguments.quiet) return exit_good;
  std::printf("backup   %s of %s\n", report->into.string().c_str(), report->directory.string().c_str());
  print(report->copy);
  return exit_good;
}

// With --keep: the backup gets a name in the folder, and older ones are removed when it is whole.
int make_kept(BackupArguments& arguments) {
  std::optional<KeptBackups> backups;
  arguments.request.choose = [&]() -> Result<std::filesystem::path> {
    auto opened = KeptBackups::open(arguments.request.into, std::chrono::system_clock::now());
    if (!opened) return opened.error();
    return backups.emplace(std::move(*opened)).next();
  };
  if (const int status = make_one(arguments); status != exit_good) return status;
  const auto report = backups->remove_old(arguments.keep);
  if (!report)
    return refuse("backup", backups->next().string() +
                                " is whole, but an older one is not removed: " + report.error().detail);
  if (arguments.quiet) return exit_good;
  std::printf("kept     %zu, removed %zu\n", report->kept, report->removed);
  for (const std::string& name : report->strange)
    std::printf("left     %s: it is no backup of this data directory, or was changed\n", name.c_str());
  return exit_good;
}

int backup_with(BackupArguments& arguments) {
  BackupRequest& request = arguments.request;
  request.may_link = !arguments.copies_all;
  // --dir alone names a stopped server. With neither --dir nor --from, the server at the usual address is
  // asked.
  const bool is_stopped = arguments.server.empty() && !request.directory.empty();
  if (!is_stopped) {
    const auto server = parse_address(arguments.server.empty() ? usual_server : arguments.server);
    if (!server) return refuse_usage("backup", server.error().detail);
    request.server = *server;
  }
  if (half_a_certificate(request.tls)) return refuse_usage("backup", "--cert and --key belong together");
  request.password = password_of_environment();
  make_files_private();
  return arguments.keep == 0 ? make_one(arguments) : make_kept(arguments);
}

int restore_with(RestoreArguments& arguments) {
  make_files_private();
  Progress progress(stderr, progress_style(arguments.quiet));
  const auto report = restore_backup(arguments.request, progress);
  progress.end();
  if (!report) return refuse("restore", report.error().detail);
  if (arguments.quiet) return exit_good;
  std::printf("restored %s from %s\n", arguments.request.directory.string().c_str(),
              arguments.request.backup.string().c_str());
  if (!report->aside.empty())
    std::printf("aside    what was there is in %s\n", report->aside.string().c_str());
  print(report->copy);
  return exit_good;
}

}  // namespace

void add_backup_command(CommandLine& line) {
  const auto arguments = std::make_shared<BackupArguments>();
  CLI::App& command =
      line.add_command("backup", "Copies the data of a running or stopped sepald, and verifies the copy",
                       [arguments] { return backup_with(*arguments); });
  command
      .add_option(
          "DEST", arguments->request.into,
          "The backup: a folder that is not there yet, or empty; with --keep, the folder of the backups")
      ->type_name("")
      ->required();
  command
      .add_option(
          "--from", arguments->server,
          "The running server, redis://[USER@]HOST[:PORT], rediss://... for TLS, or unix://[USER@]/PATH; "
          "redis://127.0.0.1:6379 if neither this nor --dir is given")
      ->type_name("SERVER")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  command
      .add_option(
          "--dir", arguments->request.directory,
          "The data directory: of a stopped server; with --from, where that of the server is on this machine")
      ->type_name("DIR")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  add_number(
      command, "--keep",
      "Make the backup in the folder DEST, named after the time, and when it is whole remove all backups "
      "of this data directory there but the newest N",
      {.lowest = 1, .highest = keep_max}, [arguments](std::uint64_t keep) { arguments->keep = keep; })
      ->type_name("N");
  add_tls_flags(command, arguments->request.tls);
  command.add_flag("--copy", arguments->copies_all,
                   "Copy all files, even where links would do, on the same file system");
  add_quiet_flag(command, arguments->quiet);
  command.footer("The password comes from the environment: SEPAL_PASSWORD.");
}

void add_restore_command(CommandLine& line) {
  const auto arguments = std::make_shared<RestoreArguments>();
  CLI::App& command =
      line.add_command("restore", "Copies a backup into a data directory, and verifies it first",
                       [arguments] { return restore_with(*arguments); });
  command.add_option("BACKUP", arguments->request.backup, "The backup; nothing is written to it")
      ->type_name("")
      ->required();
  command.add_option("--dir", arguments->request.directory, "The data directory; no sepald may use it")
      ->type_name("DIR")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
      ->required();
  command.add_flag(
      "--force", arguments->request.force,
      "Where the directory has data, put that aside, into a folder replaced-1, replaced-2, ... in it");
  add_quiet_flag(command, arguments->quiet);
}

}  // namespace sepal::tools
