#include "tools/redis/convert.hpp"

#include <sepal/base/hash.hpp>
#include <sepal/storage/format/journal_format.hpp>
#include <sepal/storage/generation/data_directory.hpp>
#include <sepal/storage/generation/filter_file.hpp>

#include <algorithm>
#include <memory>
#include <string_view>

#include "tools/redis/rdb_filters.hpp"
#include "tools/redis/redis_files.hpp"
#include "tools/shell/held_signals.hpp"
#include "tools/shell/text.hpp"

namespace sepal::tools {
namespace {

bool goes_on(const storage::Progress&) {
  return !HeldSignals::asked_to_end();
}

class Converter {
 public:
  Converter(storage::Disk& disk, const ConvertRequest& request, Progress& progress)
      : disk_(disk), request_(request), progress_(progress) {}

  Result<ConvertReport> run() {
    const auto source = redis_file(disk_, request_.input);
    if (!source) return source.error();
    RdbFilters filters(*source->file, source->byte_count, source->name, request_.now, taken_by_output(),
                       progress_);
    Result<void> done = check(filters);
    // The changes since are in other files, which only the manifest names.
    if (done && filters.is_append_only_base() && !source->of_manifest)
      return fail(Errc::unsupported_version, source->name +
                                                 ": this is the base of an append-only file; name the "
                                                 "manifest, or its folder");
    if (done && request_.output == Output::data_directory) done = import(filters);
    if (done && request_.output == Output::filter_files) done = write_files(filters);
    if (!done) return done.error();
    return ConvertReport{.keys = filters.keys()};
  }

 private:
  using Output = ConvertRequest::Output;

  [[nodiscard]] RdbFilters::Taken taken_by_output() const {
    return request_.output == Output::filter_files ? RdbFilters::Taken::bloom_filters
                                                   : RdbFilters::Taken::all;
  }

  // Reads the whole file before anything is written. At its end RdbFilters has verified the checksum, and has
  // counted all that is to be written.
  Result<void> check(RdbFilters& filters) {
    if (auto done = filters.rewind(); !done) return done;
    for (;;) {
      const auto filter = filters.next();
      if (!filter) return filter.error();
      if (*filter == nullptr) return {};
      if (request_.output != Output::filter_files) continue;
      // It may be the filter of another Redis, or the input.
      const auto target = file_of(**filter);
      const auto is_there = disk_.exists(target);
      if (!is_there) return is_there.error();
      if (*is_there) return fail(Errc::in_use, target.string() + " is there already; name another folder");
    }
  }

  [[nodiscard]] storage::Path file_of(const storage::StreamedFilter& filter) const {
    return request_.folder / filter_file_name(filter.database, filter.key);
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
      const auto written = storage::write_filter_file(disk_, file_of(**filter), **filter, goes_on);
      if (!written) return written.error();
    }
  }

  storage::Disk& disk_;
  const ConvertRequest& request_;
  Progress& progress_;
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
