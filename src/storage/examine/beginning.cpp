#include "storage/examine/beginning.hpp"

#include <sepal/storage/format/journal_format.hpp>
#include <sepal/storage/format/snapshot_format.hpp>

#include <algorithm>
#include <string>

namespace sepal::storage {

Result<Beginning> beginning_of(File& file) {
  constexpr std::size_t magic_bytes = 8;
  // Zeros stand in for the bytes that a shorter file lacks.
  std::string begin(magic_bytes, '\0');
  const auto read = file.read_at(0, std::as_writable_bytes(std::span(begin.data(), begin.size())));
  if (!read) return read.error();
  if (*read == 0) return Beginning::empty;
  const auto is = [&](const auto& magic) { return std::equal(magic.begin(), magic.end(), begin.begin()); };
  if (is(format::FilterFileHeader::expected_magic)) return Beginning::filters;
  if (is(format::ManifestHead::expected_magic)) return Beginning::manifest;
  if (is(format::SegmentHeader::expected_magic)) return Beginning::segment;
  if (is(format::SyncedSlot::expected_magic)) return Beginning::synced;
  if (begin.starts_with("SEPAL-")) return Beginning::line;
  return begin == std::string(magic_bytes, '\0') ? Beginning::unused : Beginning::other;
}

Error no_file_of_sepal(const Path& path, Beginning beginning) {
  const std::string name = path.string();
  // LOCK is plain text without a magic, so its name is all there is to tell it by.
  if (path.filename() == "LOCK")
    return fail(
        Errc::out_of_range,
        name + " has no data: it names the process that uses the directory, and where that one listens");
  return fail(Errc::damaged, name + " is no file of Sepal: " +
                                 (beginning == Beginning::empty ? "it is empty" : "it begins as none does"));
}

}  // namespace sepal::storage
