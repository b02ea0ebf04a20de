#include "convert.hpp"

#include <sepal/base/assert.hpp>
#include <sepal/base/hash.hpp>
#include <sepal/filter/bit_string.hpp>
#include <sepal/filter/filter.hpp>
#include <sepal/filter/image.hpp>
#include <sepal/keyspace/keyspace.hpp>
#include <sepal/storage/data_directory.hpp>
#include <sepal/storage/filter_file.hpp>
#include <sepal/storage/journal_format.hpp>
#include <sepal/storage/snapshot.hpp>

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "held_signals.hpp"
#include "plan.hpp"
#include "rdb_filters.hpp"
#include "redis_files.hpp"
#include "text.hpp"

namespace sepal::tools {
namespace {

constexpr std::size_t filled_at_once = 1 << 20;
// Redis removes no key for its deadline while it loads commands: a later command may change the deadline, and
// if Redis removed a key, a command says so. The same holds here (decisions/0028).
constexpr WallTime before_all_deadlines{};

// Filters are freed at once: a program that runs once has no other thread for it.
class NoHousekeeper final : public keyspace::Housekeeper {
 public:
  void dispose(keyspace::FilterPtr) override {}
  void dispose_database(std::shared_ptr<const void>) override {}
  void settle(filter::FilterPtr, filter::LayerView) override {}
  void due_at(keyspace::Deadline) override {}
};

bool goes_on(const storage::Progress&) {
  return !HeldSignals::asked_to_end();
}

class Converter {
 public:
  Converter(storage::Disk& disk, const ConvertRequest& request, Progress& progress)
      : disk_(disk), request_(request), progress_(progress) {}

  Result<ConvertReport> run() {
    auto files = redis_files(disk_, request_.input);
    if (!files) return files.error();
    // Only commands can change a key that was read. Without any, bits go from file to file and take no
    // memory.
    const bool is_one_rdb = files->size() == 1 && files->front().commands_from == files->front().byte_count;
    auto done = is_one_rdb ? stream(files->front()) : replay(*files);
    if (!done) return done.error();
    return std::move(report_);
  }

 private:
  using Output = ConvertRequest::Output;

  Result<void> stream(RedisFile& source) {
    RdbFilters filters(*source.file, source.byte_count, source.name, request_.now, strings_of_output(),
                       progress_);
    Result<void> done = check(filters);
    if (done && request_.output == Output::data_directory) done = import(filters);
    if (done && request_.output == Output::filter_files) done = write_files(filters);
    report_.keys = filters.keys();
    return done;
  }

  [[nodiscard]] RdbFilters::Strings strings_of_output() const {
    return request_.output == Output::filter_files ? RdbFilters::Strings::left_out
                                                   : RdbFilters::Strings::taken;
  }

  // Reads the whole file before anything is written. At its end RdbFilters has verified the checksum, and has
  // counted all that is to be written.
  static Result<void> check(RdbFilters& filters) {
    if (auto done = filters.rewind(); !done) return done;
    for (;;) {
      const auto filter = filters.next();
      if (!filter) return filter.error();
      if (*filter == nullptr) return {};
    }
  }

  Result<std::unique_ptr<storage::DataDirectory>> new_directory() {
    auto directory = storage::DataDirectory::open(disk_, request_.folder, request_.seed, std::nullopt);
    if (!directory) return directory;
    // The open directory is locked, so no sepald can save into it behind this look.
    const auto names = disk_.list(request_.folder);
    if (!names) return names.error();
    // The journal alone may be the data: that of a server that ended before its first save. A start would
    // apply it to the converted filters.
    const bool has_data = std::ranges::any_of(*names, [](const std::string& name) {
      return name == "CURRENT" || storage::format::segment_number(name);
    });
    if (has_data)
      return fail(Errc::in_use, request_.folder.string() + " has data already; name a new folder");
    return directory;
  }

  Result<void> import(RdbFilters& filters) {
    const HeldSignals held;
    auto directory = new_directory();
    if (!directory) return directory.error();
    const auto report = (*directory)->import_filters(filters, request_.now, goes_on);
    return report ? Result<void>() : report.error();
  }

  Result<void> write_files(RdbFilters& filters) {
    const HeldSignals held;
    if (auto done = disk_.make_directory(request_.folder); !done) return done;
    if (auto done = filters.rewind(); !done) return done;
    for (;;) {
      const auto filter = filters.next();
      if (!filter) return filter.error();
      if (*filter == nullptr) return {};
      const auto target = request_.folder / filter_file_name((*filter)->database, (*filter)->key);
      const auto written = storage::write_filter_file(disk_, target, **filter, goes_on);
      if (!written) return written.error();
    }
  }

  // --- with commands --------------------------------------------------------------------------------------

  // The files follow each other as Redis loads them. The first one may be, or begin with, an RDB file.
  // `commands` keeps the selected database and an unfinished transaction from one file to the next.
  Result<void> replay(std::vector<RedisFile>& files) {
    keyspace_.emplace(keyspace::KeyspaceOptions{.seed = request_.seed, .key_seed = request_.seed},
                      housekeeper_);
    AppendOnly commands(*keyspace_, before_all_deadlines);
    for (RedisFile& source : files) {
      if (auto done = load(source); !done) return done;
      if (source.commands_from == source.byte_count) continue;
      if (auto done = commands.run(*source.file, source.name, source.commands_from); !done) return done;
    }
    report_.replay = commands.counts();
    // Deadlines count only now, when no command can change them any more.
    remove_past();
    return write_keyspace();
  }

  // The RDB part of a file, if it has one.
  Result<void> load(RedisFile& source) {
    if (source.commands_from == 0) return {};
    RdbFilters filters(*source.file, source.commands_from, source.name, before_all_deadlines,
                       RdbFilters::Strings::taken, progress_);
    if (auto done = filters.rewind(); !done) return done;
    for (;;) {
      const auto filter = filters.next();
      if (!filter) return filter.error();
      if (*filter == nullptr) break;
      if (auto done = put(**filter); !done) return done;
    }
    // The reasons of keys that were left out stay in the report. count() replaces the other numbers.
    report_.keys = filters.keys();
    return {};
  }

  Result<void> put(const storage::StreamedFilter& stored) {
    auto filter = filter::Filter::restore(stored.header->options, stored.header->layers, filter_limits);
    if (!filter)
      return fail(filter.error().code, readable_key(std::string(stored.key)) + ": there is no memory for it");
    std::vector<std::byte> piece(
        static_cast<std::size_t>(std::min<std::uint64_t>(filled_at_once, stored.header->bitmap_bytes())));
    // In pieces: the memory is that of the filter, and one piece.
    for (std::uint64_t at = 0; at < stored.header->bitmap_bytes();) {
      const auto part = std::span(piece).first(static_cast<std::size_t>(
          std::min<std::uint64_t>(piece.size(), stored.header->bitmap_bytes() - at)));
      if (auto done = stored.bits->read(part); !done) return done;
      filter::fill_bits(**filter, at, part);
      at += part.size();
    }
    return keyspace_->put({.database = stored.database, .key = stored.key}, std::move(*filter),
                          stored.deadline);
  }

  void remove_past() {
    while (const auto due = keyspace_->next_due(request_.now)) {
      keyspace_->expire({.database = due->database, .key = due->key}, request_.now);
      ++report_.keys.others["past their deadline"];
    }
  }

  // What the base held says little once commands have changed it.
  void count(const storage::Snapshot& snapshot) {
    MovedKeys& keys = report_.keys;
    keys.filters = keys.items = keys.bytes = keys.strings = keys.string_bytes = 0;
    for (const keyspace::CutEntry& entry : snapshot.entries) {
      if (entry.filter->is_string()) {
        count_string(filter::BitString(*entry.filter).length());
        continue;
      }
      ++keys.filters;
      for (const filter::LayerView& layer : entry.filter->layers()) {
        keys.items += layer.item_count();
        keys.bytes += layer.plan().byte_count();
      }
    }
  }

  void count_string(std::uint64_t byte_count) {
    if (request_.output == Output::filter_files) {
      ++report_.keys.others["of type string"];
      return;
    }
    ++report_.keys.strings;
    report_.keys.string_bytes += byte_count;
  }

  Result<void> write_keyspace() {
    const storage::Snapshot snapshot = storage::snapshot_of(*keyspace_, request_.now);
    count(snapshot);
    if (request_.output == Output::nothing) return {};
    const HeldSignals held;
    if (request_.output == Output::filter_files) return write_files(snapshot);
    auto directory = new_directory();
    if (!directory) return directory.error();
    const auto saved = (*directory)->save(snapshot, goes_on);
    return saved ? Result<void>() : saved.error();
  }

  Result<void> write_files(const storage::Snapshot& snapshot) {
    if (auto done = disk_.make_directory(request_.folder); !done) return done;
    for (const keyspace::CutEntry& entry : snapshot.entries) {
      // A filter file holds a filter; count_string() has counted the string as left out.
      if (entry.filter->is_string()) continue;
      const storage::FilterFile file{
          .key = std::string(entry.key), .filter = entry.filter, .header = filter::header_of(*entry.filter)};
      const auto target = request_.folder / filter_file_name(entry.database, entry.key);
      if (const auto written = storage::write_filter_file(disk_, target, file, goes_on); !written)
        return written.error();
    }
    return {};
  }

  storage::Disk& disk_;
  const ConvertRequest& request_;
  Progress& progress_;
  NoHousekeeper housekeeper_;
  std::optional<keyspace::Keyspace> keyspace_;
  ConvertReport report_;
};

}  // namespace

Result<ConvertReport> convert(storage::Disk& disk, const ConvertRequest& request, Progress& progress) {
  return Converter(disk, request, progress).run();
}

std::string filter_file_name(std::uint32_t database, std::string_view key) {
  constexpr std::size_t name_bytes_max = 200;  // of 255, so that there is room for a digest and the ending
  // Neither '/' nor '%' is plain. So a key cannot lead out of the folder, and two keys never get the same
  // name.
  constexpr std::string_view plain = "-_.";
  std::string name = std::to_string(database) + "-";
  for (const char letter : key) {
    const auto code = static_cast<unsigned char>(letter);
    const bool is_plain = (code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z') ||
                          (code >= '0' && code <= '9') || plain.find(letter) != std::string_view::npos;
    name += is_plain ? std::string(1, letter) : format("%%%02x", unsigned{code});
  }
  if (name.size() > name_bytes_max)
    name = name.substr(0, name_bytes_max) + format("~%016llx", wide(hash64(key, 0)));
  return name + ".sepal";
}

}  // namespace sepal::tools
