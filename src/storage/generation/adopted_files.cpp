#include <sepal/base/assert.hpp>
#include <sepal/log/event.hpp>
#include <sepal/storage/format/journal_format.hpp>
#include <sepal/storage/generation/adopted_files.hpp>
#include <sepal/storage/generation/filter_file.hpp>
#include <sepal/value/image.hpp>

#include <algorithm>
#include <string>
#include <utility>

#include "storage/disk/damage.hpp"

namespace sepal::storage {
namespace {

// The client of the filter reads this, and knows nothing of a file aside, whose name is drawn anew each time.
Error without_aside_name(const Error& error, const Path& directory) {
  const std::string folder = (directory / "").native();
  const std::size_t name_bytes = aside_name(0).size();
  const std::string_view detail = error.detail;
  for (std::size_t at = detail.find(folder); at != std::string_view::npos; at = detail.find(folder, at + 1)) {
    const std::string_view rest = detail.substr(at + folder.size());
    if (is_aside_name(rest.substr(0, name_bytes)) && rest.substr(name_bytes).starts_with(": "))
      return fail(error.code,
                  "cannot write into " + directory.string() + std::string(rest.substr(name_bytes)));
  }
  return error;
}

}  // namespace

bool is_unfinished_filter_file(std::string_view name) {
  constexpr std::string_view suffix = ".tmp";
  if (is_aside_name(name)) return true;
  // Earlier versions wrote adopted-000000000007.tmp.
  if (!name.ends_with(suffix)) return false;
  return format::adopted_number(name.substr(0, name.size() - suffix.size())).has_value();
}

AdoptedFiles::AdoptedFiles(Disk& disk, Path directory, std::vector<NamedFile> named)
    : disk_(disk), directory_(std::move(directory)), named_(std::move(named)) {}

Result<std::unique_ptr<AdoptedFiles>> AdoptedFiles::open(Disk& disk, Path directory,
                                                         std::vector<NamedFile> named) {
  std::unique_ptr<AdoptedFiles> files(new AdoptedFiles(disk, std::move(directory), std::move(named)));
  if (auto removed = files->remove_remains(); !removed) return removed.error();
  return files;
}

Result<void> AdoptedFiles::remove_remains() {
  const auto names = disk_.list(directory_);
  if (!names) return names.error();
  {
    const MutexLock lock(mutex_);
    for (const NamedFile& file : named_) number_ = std::max(number_, file.number);
  }
  for (const std::string& name : *names) {
    const auto number = format::adopted_number(name);
    if (number ? is_named(*number) : !is_unfinished_filter_file(name)) continue;
    log::info("remains_removed", "remains removed", {{"file", (directory_ / name).native()}});
    if (auto removed = disk_.remove(directory_ / name); !removed) return removed;
  }
  return {};
}

bool AdoptedFiles::is_named(std::uint64_t number) {
  const MutexLock lock(mutex_);
  return std::ranges::any_of(named_, [&](const NamedFile& file) { return file.number == number; });
}

Result<keyspace::ImageFile> AdoptedFiles::write(const value::ValuePtr& value, const ProgressSink& progress) {
  SEPAL_ASSERT(value != nullptr, "there is no value to write aside");
  const std::uint64_t number = next_number();
  const auto written = write_filter_file(disk_, directory_ / format::adopted_name(number), {},
                                         value::Frozen(value).view(), progress);
  if (written) return keyspace::ImageFile{.number = number, .seal = written->seal};
  // If only the sync of the directory failed, the file is there under its name.
  drop(number);
  return without_aside_name(written.error(), directory_);
}

// After the highest number there is, the numbers begin anew.
std::uint64_t AdoptedFiles::next_number() {
  do {
    number_ = number_ == format::adopted_number_max ? 1 : number_ + 1;
  } while (is_named(number_));
  return number_;
}

void AdoptedFiles::named(const NamedFile& file) {
  const MutexLock lock(mutex_);
  SEPAL_ASSERT(file.number != 0, "a record names a file without a number");
  named_.push_back(file);
}

std::uint64_t AdoptedFiles::byte_count() {
  const MutexLock lock(mutex_);
  std::uint64_t bytes = 0;
  for (const NamedFile& file : named_) bytes += file.byte_count;
  return bytes;
}

void AdoptedFiles::drop(std::uint64_t number) {
  SEPAL_ASSERT(number != 0 && !is_named(number), "a file is dropped that a record names");
  if (const auto removed = disk_.remove(directory_ / format::adopted_name(number)); !removed)
    log::warn("remains_not_removed", "remains not removed", {{"reason", removed.error().detail}});
}

// No start replays a record before the generation's cut, so no start reads the files of these records again.
void AdoptedFiles::generation_saved(std::uint64_t position) {
  // The files are removed without the lock. named() takes it while the gate is closed, and all clients would
  // wait for the disk.
  std::vector<NamedFile> saved;
  {
    const MutexLock lock(mutex_);
    const auto later = std::partition(named_.begin(), named_.end(),
                                      [&](const NamedFile& file) { return file.position <= position; });
    saved.assign(named_.begin(), later);
    named_.erase(named_.begin(), later);
  }
  for (const NamedFile& file : saved) drop(file.number);
}

Result<value::ValuePtr> read_adopted(Disk& disk, const Path& directory, const keyspace::ImageFile& file,
                                     const value::Limits& limits, const ProgressSink& progress) {
  const Path path = directory / format::adopted_name(file.number);
  auto read = read_filter_file(disk, path, limits, progress);
  // The file was on the disk before its record was, so a crash cannot explain that it is missing.
  if (!read && read.error().code == Errc::not_found)
    return fail(Errc::damaged, path.string() + " is not there, and the journal names it");
  // A file with none or with several filters is no damage in itself, but no record names such a file.
  if (!read && read.error().code == Errc::out_of_range) return fail(Errc::damaged, read.error().detail);
  if (!read) return read.error();
  // The file verifies. It may still be another one of the same number, for example one that an operator has
  // copied there.
  if (read->seal != file.seal)
    return fail(Errc::damaged, path.string() + " is not the file that the journal names");
  return std::move(read->value);
}

}  // namespace sepal::storage
