#include "tools/data/backup.hpp"

#include <sepal/base/assert.hpp>
#include <sepal/storage/disk/disk.hpp>
#include <sepal/storage/generation/restore.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <sys/resource.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <utility>

#include "tools/data/kept_backups.hpp"
#include "tools/data/permission.hpp"
#include "tools/redis/redis_connection.hpp"
#include "tools/redis/tls_flags.hpp"
#include "tools/shell/held_signals.hpp"
#include "tools/shell/text.hpp"

namespace sepal::tools {
namespace {

using storage::Disk;
using Path = std::filesystem::path;

// A server that saves often may replace a generation before all of its files are open.
constexpr int tries_max = 10;
constexpr std::chrono::milliseconds save_look_period{50};
constexpr std::uint64_t thousandths = 1000;

Error ended_as_asked() {
  return fail(Errc::io, "ended as asked; nothing is left of it");
}

// A copy of a running server holds all files of a generation open at once (decisions/0033). Failures are
// ignored: if the limit is too low, the copy names the file that it could not open.
void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  static_cast<void>(setrlimit(RLIMIT_NOFILE, &limit));
}

// The sink also ends the work when a signal has come: HeldSignals keeps the signal from ending the program,
// so that what is unfinished can be removed.
storage::ProgressSink sink_of(Progress& progress) {
  return [&progress](const storage::Progress& now) {
    progress.update(now.bytes_done, now.bytes_done);
    return !HeldSignals::asked_to_end();
  };
}

// --- the server ---------------------------------------------------------------------------------------

// INFO has a line "name:value" for each field. The line feed before the name keeps a name from matching the
// end of a longer one.
std::string field_in(std::string_view info, const std::string& name) {
  const std::size_t at = info.find("\n" + name + ":");
  if (at == std::string_view::npos) return "";
  const std::string_view rest = info.substr(at + name.size() + 2);
  return std::string(rest.substr(0, rest.find('\r')));
}

class SavingServer {
 public:
  SavingServer(RedisConnection& server, Progress& progress) : server_(server), progress_(progress) {}

  // INFO comes first, because a user that may run CONFIG GET can read the server's password as well. An older
  // sepald has the directory only in CONFIG.
  Result<Path> directory() {
    const auto info = answer_of(server_, {"INFO"});
    if (!info) return info.error();
    if (auto told = field_in(info->view().text(), "data_directory"); !told.empty()) return Path(told);
    const auto answer = answer_of(server_, {"CONFIG", "GET", "dir"});
    if (!answer) return answer.error();
    const std::string_view path = answer->view()[1].text();
    if (path.empty()) return fail(Errc::io, server_.name() + " does not say where its data directory is");
    return Path(path);
  }

  // A save that begins after this call, and ends before it returns. Returns a position of the journal that is
  // on disk after it.
  Result<std::uint64_t> save() {
    // Redis knows BGSAVE too. Only sepald tells this position, so another server is refused before it saves.
    const auto info = answer_of(server_, {"INFO"});
    if (!info) return info.error();
    if (field_in(info->view().text(), "journal_synced_position").empty())
      return fail(Errc::out_of_range, server_.name() + " is no sepald");
    if (auto begun = begin_save(); !begun) return begun.error();
    progress_.begin("save", thousandths, "");
    return await_save();
  }

 private:
  // A save that runs already may lack what was acknowledged last. So another one follows it.
  Result<void> begin_save() {
    for (;;) {
      const auto reply = server_.ask({"BGSAVE"});
      if (!reply) return reply.error();
      if (!reply->view().is_error()) return {};
      const std::string why(reply->view().text());
      if (why.find("already in progress") == std::string::npos)
        return fail(Errc::io, server_.name() + ": BGSAVE was answered: " + why);
      if (auto waited = wait(); !waited) return waited;
    }
  }

  Result<std::uint64_t> await_save() {
    for (;;) {
      const auto reply = answer_of(server_, {"INFO"});
      if (!reply) return reply.error();
      const std::string_view info = reply->view().text();
      // The field counts a save that is ordered and has not begun yet. So no look falls between BGSAVE and
      // the begin of its save. It stands in the section of rdb_last_bgsave_status: an older sepald reads the
      // state of the save anew for each section, and the save may end between two of them.
      if (field_in(info, "rdb_bgsave_in_progress") == "0") return position(info);
      const double share = std::strtod(field_in(info, "save_progress").c_str(), nullptr);
      progress_.update(static_cast<std::uint64_t>(share * thousandths), 0);
      if (auto waited = wait(); !waited) return waited.error();
    }
  }

  Result<std::uint64_t> position(std::string_view info) const {
    if (field_in(info, "rdb_last_bgsave_status") != "ok")
      return fail(Errc::io, server_.name() + " could not save: " + field_in(info, "save_last_error"));
    return std::strtoull(field_in(info, "journal_synced_position").c_str(), nullptr, 10);
  }

  static Result<void> wait() {
    if (HeldSignals::asked_to_end()) return ended_as_asked();
    std::this_thread::sleep_for(save_look_period);
    return {};
  }

  RedisConnection& server_;
  Progress& progress_;
};

// Refuses a folder without a SEED. `kind` is what the folder should be.
Result<void> require_seed(Disk& disk, const Path& folder, std::string_view kind) {
  if (auto readable = require_readable(disk, folder); !readable) return readable;
  const auto there = disk.exists(folder);
  if (!there) return there.error();
  if (!*there) return fail(Errc::not_found, "there is no folder " + folder.string());
  if (auto none = storage::require_no_begun_restore(disk, folder); !none) return none;
  // Every data directory has a SEED from its first start on, also one without a generation. An earlier
  // version wrote none where the setting named the seed.
  for (const char* const name : {"SEED", "CURRENT"}) {
    const auto present = disk.exists(folder / name);
    if (!present) return present.error();
    if (*present) return {};
  }
  return fail(Errc::not_found, folder.string() + " is no " + std::string(kind) + ": it has no SEED");
}

// Refuses a target in the folder that is read. The paths are compared without their links. A path that cannot
// be read is in no folder, and fails later. `kind` is what the folder is.
Result<void> require_outside(const Path& target, const Path& folder, std::string_view kind) {
  std::error_code code;
  const auto real = [&](const Path& path) {
    return std::filesystem::weakly_canonical(std::filesystem::absolute(path, code), code);
  };
  const Path outer = real(folder);
  if (outer.empty() || std::ranges::mismatch(outer, real(target)).in1 != outer.end()) return {};
  return fail(Errc::out_of_range, target.string() + " lies in the " + std::string(kind) + " " +
                                      folder.string() + "; name a folder outside of it");
}

// --- a backup -----------------------------------------------------------------------------------------

// What CURRENT holds; empty if it cannot be read.
std::string current_of(Disk& disk, const Path& directory) {
  const auto file = disk.open(directory / "CURRENT");
  std::string text(256, '\0');
  const auto read =
      file ? (*file)->read_at(0, std::as_writable_bytes(std::span(text))) : Result<std::size_t>(0);
  text.resize(read ? *read : 0);
  return text;
}

// A backup without a name of its own. It is removed unless it gets one.
class Unfinished {
 public:
  Unfinished(Disk& disk, const Path& target)
      : disk_(disk), target_(target), path_(target.string() + partial_suffix) {}
  ~Unfinished() {
    if (made_) static_cast<void>(disk_.remove_tree(path_));
  }
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;

  [[nodiscard]] Path copy() const { return path_ / partial_data; }

  // Removes what an earlier program left that was killed.
  Result<void> begin() {
    if (auto free = require_free(); !free) return free;
    const auto there = disk_.exists(path_);
    if (!there) return there.error();
    if (auto made = disk_.make_directory(path_); !made) return made;
    // The lock comes before made_ and before anything is removed: the folder may be that of a backup that
    // runs.
    auto lock = disk_.lock(path_ / "LOCK");
    if (!lock) return lock.error();
    lock_ = std::move(*lock);
    made_ = true;
    return disk_.remove_tree(copy());
  }

  Result<void> finish() {
    SEPAL_ASSERT(made_ && lock_ != nullptr, "a backup gets its name before it was begun");
    // The copy may have taken hours, so this is asked again.
    if (auto free = require_free(); !free) return free;
    if (auto renamed = disk_.rename(copy(), target_); !renamed) return renamed;
    return disk_.sync_directory(target_.parent_path());
  }

 private:
  // A rename replaces an empty folder, and no other one.
  Result<void> require_free() {
    const auto there = disk_.exists(target_);
    if (!there) return there.error();
    if (!*there) return {};
    const auto names = disk_.list(target_);
    if (!names) return names.error();
    if (names->empty()) return {};
    return fail(Errc::in_use, target_.string() + " is not empty; name a folder that is not there yet");
  }

  Disk& disk_;
  Path target_;
  Path path_;
  std::unique_ptr<storage::DirectoryLock> lock_;
  bool made_ = false;
};

class Backup {
 public:
  Backup(const BackupRequest& request, Progress& progress)
      : request_(request), progress_(progress), directory_(request.directory) {}

  Result<BackupReport> run() {
    // Nothing is written yet, so a signal may end the program here, while it waits for the server.
    if (auto found = find_directory(); !found) return advised(found.error());
    // A disk or a command that loses the data directory would take the backup along.
    if (auto outside = require_outside(without_last_slash(request_.into), directory_, "data directory");
        !outside)
      return outside.error();
    auto target = request_.choose ? request_.choose() : Result<Path>(request_.into);
    if (!target) return with_folder_advice(target.error());
    const HeldSignals signals;
    Unfinished unfinished(*disk_, without_last_slash(*target));
    if (auto begun = unfinished.begin(); !begun) return with_folder_advice(begun.error());
    auto copied = connection_ ? copy_of_running(unfinished.copy()) : copy_of_stopped(unfinished.copy());
    if (!copied) return with_user_advice(advised(copied.error()));
    progress_.begin("verify", copied->bytes, "bytes");
    if (auto whole = storage::require_whole(*disk_, unfinished.copy(), sink_of(progress_)); !whole)
      // A check that a signal ends returns an error, too. It says nothing about the copy.
      return HeldSignals::asked_to_end() ? ended_as_asked() : about_copy(whole.error());
    if (auto finished = unfinished.finish(); !finished) return finished.error();
    return BackupReport{.copy = std::move(*copied), .directory = directory_, .into = *target};
  }

 private:
  // The parent of "backup/" would be "backup".
  static Path without_last_slash(const Path& path) {
    const Path normal = path.lexically_normal();
    return normal.has_filename() ? normal : normal.parent_path();
  }

  [[nodiscard]] Error advised(const Error& error) const {
    if (!request_.server) return error;
    if (error.detail.find("NOPERM") == std::string::npos)
      return with_login_advice(error, "SEPAL_PASSWORD", "--from");
    // Only an older sepald is asked for its setting, which takes a right that shows its password, too.
    const bool is_about_setting = error.detail.find("CONFIG was answered") != std::string::npos;
    return fail(error.code, error.detail + (is_about_setting ? "; name its data directory with --dir"
                                                             : "; the user needs the rights +info +bgsave"));
  }

  static Error about_copy(const Error& error) {
    return fail(error.code, "the copy does not verify, so there is no backup: " + error.detail);
  }

  Result<void> find_directory() {
    if (!request_.server) return require_seed(*disk_, directory_, "data directory");
    const auto tls = tls_for(*request_.server, request_.tls);
    if (!tls) return tls.error();
    auto connection = RedisConnection::open(*request_.server, request_.password, tls->get());
    if (!connection) return connection.error();
    connection_ = std::move(*connection);
    if (directory_.empty()) {
      auto told = SavingServer(*connection_, progress_).directory();
      if (!told) return told.error();
      directory_ = std::move(*told);
    }
    return require_readable(*disk_, directory_);
  }

  Result<storage::CopyReport> copy_of_stopped(const Path& copy) {
    // The lock is held until the copy is done, so no sepald can start and change the files.
    const auto lock = disk_->lock(directory_ / "LOCK");
    if (!lock && lock.error().code == Errc::in_use)
      return fail(Errc::in_use, lock.error().detail + ", or name the server with --from");
    if (!lock) return lock.error();
    return copy_once(copy, std::nullopt);
  }

  Result<storage::CopyReport> copy_of_running(const Path& copy) {
    SavingServer server(*connection_, progress_);
    for (int left = tries_max;; --left) {
      // The server may have another data directory than `directory_`, for example on another machine. A save
      // replaces CURRENT, so the same CURRENT after it tells that. A CURRENT that cannot be read is empty
      // both times, and counts as the same.
      const std::string before = current_of(*disk_, directory_);
      const auto until = server.save();
      if (!until) return until.error();
      if (current_of(*disk_, directory_) == before)
        return fail(Errc::not_found, "the save of " + connection_->name() + " did not change " +
                                         directory_.string() +
                                         "; name with --dir where its data directory is on this machine");
      auto copied = copy_once(copy, *until);
      // in_use: one more save has replaced the generation before all of its files were held. Another round
      // copies the next generation. copy_data() wants a folder that is not there, so the rest of this copy
      // goes first.
      if (copied || copied.error().code != Errc::in_use || left == 1) return copied;
      if (auto removed = disk_->remove_tree(copy); !removed) return removed.error();
    }
  }

  Result<storage::CopyReport> copy_once(const Path& copy, std::optional<std::uint64_t> until) {
    progress_.begin("copy", 0, "bytes");
    auto copied = storage::copy_data(
        *disk_, {.from = directory_, .into = copy, .until = until, .may_link = request_.may_link},
        [this, sink = sink_of(progress_), begun = false](const storage::Progress& now) mutable {
          // The total is known only here, so the phase begins once more with it.
          if (!std::exchange(begun, true)) progress_.begin("copy", now.bytes_total, "bytes");
          return sink(now);
        });
    return !copied && HeldSignals::asked_to_end() ? ended_as_asked() : std::move(copied);
  }

  const BackupRequest& request_;
  Progress& progress_;
  Path directory_;
  std::unique_ptr<RedisConnection> connection_;  // null: the server is stopped
  std::unique_ptr<Disk> disk_ = storage::make_posix_disk();
};

// --- a restore ----------------------------------------------------------------------------------------

// Gives `path` to the owner of `directory`: root restores for the user that sepald runs as.
Result<void> give_alone_to_owner_of(const Path& directory, const Path& path) {
  struct stat owner {};
  if (geteuid() != 0) return {};
  if (::stat(directory.c_str(), &owner) != 0)
    return fail(Errc::io, "cannot look at " + directory.string() + ": " + reason_text(errno));
  // lchown() changes a link itself, and not what the link leads to.
  if (::lchown(path.c_str(), owner.st_uid, owner.st_gid) == 0) return {};
  return fail(Errc::io, "cannot change the owner of " + path.string() + ": " + reason_text(errno));
}

// The same for `path` and what is in it. Only root can give files away. Another user owns what it restores,
// and needs no change.
Result<void> give_to_owner_of(const Path& directory, const Path& path) {
  if (geteuid() != 0) return {};
  const auto give = [&](const Path& one) { return give_alone_to_owner_of(directory, one); };
  if (auto given = give(path); !given) return given;
  std::error_code code;
  if (!std::filesystem::is_directory(path, code)) return {};
  for (std::filesystem::recursive_directory_iterator at(path, code), end; !code && at != end;
       at.increment(code))
    if (auto given = give(at->path()); !given) return given;
  return code ? fail(Errc::io, "cannot list " + path.string() + ": " + code.message()) : Result<void>();
}

class Restore {
 public:
  Restore(const RestoreRequest& request, Progress& progress) : request_(request), progress_(progress) {}

  Result<RestoreReport> run() {
    if (auto backup = require_seed(*disk_, request_.backup, "backup"); !backup) return backup.error();
    if (auto outside = require_outside(request_.directory, request_.backup, "backup"); !outside)
      return outside.error();
    auto report = run_locked();
    return report ? std::move(report) : with_user_advice(report.error());
  }

 private:
  Result<RestoreReport> run_locked() {
    // The lock comes before the look at the data: no sepald can start and make data in between.
    if (auto locked = lock(); !locked) return locked.error();
    if (auto free = require_free(); !free) return free.error();
    // What a restore that was killed has left. The lock says that no other restore is using it.
    if (auto removed = disk_->remove_tree(copy_); !removed) return removed.error();
    auto report = prepare();
    if (report) report = put_in_place(std::move(*report));
    if (!report) static_cast<void>(disk_->remove_tree(copy_));
    return !report && HeldSignals::asked_to_end() ? ended_as_asked() : std::move(report);
  }

  Result<void> lock() {
    std::error_code code;
    std::filesystem::create_directories(request_.directory, code);
    if (code) return fail(Errc::io, "cannot create " + request_.directory.string() + ": " + code.message());
    auto locked = disk_->lock(request_.directory / "LOCK");
    if (!locked) return locked.error();
    lock_ = std::move(*locked);
    // If root has just made the file, a sepald of another user could not open it.
    return give_to_owner_of(request_.directory, request_.directory / "LOCK");
  }

  Result<void> require_free() {
    if (request_.force) return {};
    if (auto none = storage::require_no_begun_restore(*disk_, request_.directory); !none) return none;
    const auto holds_data = storage::holds_data(*disk_, request_.directory);
    if (!holds_data) return holds_data.error();
    if (!*holds_data) return {};
    return fail(Errc::in_use,
                request_.directory.string() +
                    " has data; name another directory, or use --force, which puts the data aside");
  }

  // The copy is verified, and not the backup: so what a start reads has been read once.
  Result<RestoreReport> prepare() {
    progress_.begin("copy", 0, "bytes");
    auto copied = storage::copy_data(
        *disk_, {.from = request_.backup, .into = copy_, .until = std::nullopt, .may_link = false},
        [this, sink = sink_of(progress_), begun = false](const storage::Progress& now) mutable {
          if (!std::exchange(begun, true)) progress_.begin("copy", now.bytes_total, "bytes");
          return sink(now);
        });
    if (!copied) return copied.error();
    progress_.begin("verify", copied->bytes, "bytes");
    if (auto whole = storage::require_whole(*disk_, copy_, sink_of(progress_)); !whole)
      return fail(whole.error().code,
                  "the backup " + request_.backup.string() +
                      " does not verify, and nothing was restored: " + whole.error().detail);
    // The owner is right before the files get their names: a start may come as soon as they have them.
    if (auto given = give_to_owner_of(request_.directory, copy_); !given) return given.error();
    return RestoreReport{.copy = std::move(*copied), .aside = {}};
  }

  Result<RestoreReport> put_in_place(RestoreReport report) {
    SEPAL_ASSERT(lock_ != nullptr, "data is replaced that may be in use");
    auto aside = storage::put_in_place(*disk_, request_.directory);
    if (!aside) return aside.error();
    report.aside = *aside;
    // What was moved there keeps its owners.
    if (report.aside.empty()) return report;
    if (auto given = give_alone_to_owner_of(request_.directory, report.aside); !given) return given.error();
    return report;
  }

  const RestoreRequest& request_;
  Progress& progress_;
  Path copy_ = request_.directory / storage::restore_folder;
  std::unique_ptr<Disk> disk_ = storage::make_posix_disk();
  std::unique_ptr<storage::DirectoryLock> lock_;
};

}  // namespace

Result<BackupReport> make_backup(const BackupRequest& request, Progress& progress) {
  raise_descriptor_limit();
  return Backup(request, progress).run();
}

Result<RestoreReport> restore_backup(const RestoreRequest& request, Progress& progress) {
  const HeldSignals signals;
  raise_descriptor_limit();
  return Restore(request, progress).run();
}

}  // namespace sepal::tools
