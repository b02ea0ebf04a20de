#include "record_salvage.hpp"

#include <sepal/storage/snapshot_format.hpp>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "damage.hpp"
#include "generation_reader.hpp"

namespace sepal::storage {

Result<void> RecordSalvage::run(const format::ListedFile* listed, const Take& take, const Lose& lose) {
  begin_at(0);
  const auto count = records_->read_header();
  if (!count) {
    if (!is_damage(count.error())) return count.error();
    lose(count.error());
    begin_at(std::min<std::uint64_t>(sizeof(format::FilterFileHeader), byte_count_));
  }
  if (count && listed != nullptr)
    if (auto right = check_count(*count, *listed); !right) lose(right.error());
  std::uint64_t found = 0;
  bool whole = count.ok();
  for (; reader_->remaining() > 0; ++found) {
    const std::uint64_t start = reader_->offset();
    auto loaded = records_->read_record();
    if (loaded) {
      if (auto taken = take(*loaded); !taken) return taken;
      continue;
    }
    if (!is_damage(loaded.error()) && loaded.error().code != Errc::too_large) return loaded.error();
    lose(loaded.error());
    whole = false;
    const auto end = records_->end_of_record();
    const auto next = end ? Result<std::uint64_t>(*end) : next_head(start + 1);
    if (!next) return next.error();
    go_on_at(*next);
  }
  // A file may have been cut where a record begins, and damage may have hidden the heads of some.
  const std::uint64_t expected = listed != nullptr ? listed->record_count : count ? *count : 0;
  if (found < expected)
    lose(damaged_at(byte_count_, std::to_string(expected - found) + " of its " + std::to_string(expected) +
                                     " filters are missing"));
  // Another file, or an older one, may be whole in itself.
  if (whole && listed != nullptr && found == expected)
    if (auto right = check_seal(reader_->seal(), *listed); !right) lose(right.error());
  return {};
}

void RecordSalvage::begin_at(std::uint64_t offset) {
  reader_.emplace(file_, byte_count_, buffer_);
  reader_->skip(offset);
  records_.emplace(*reader_, any_filter, meter_);
}

// Uses the version that the file's header names, if the header is right.
void RecordSalvage::go_on_at(std::uint64_t offset) {
  begin_at(0);
  if (records_->read_header()) {
    reader_->skip(offset - reader_->offset());
  } else {
    begin_at(offset);
  }
}

// The next offset, from `from` on, at which a head may begin; the end of the file if there is none.
Result<std::uint64_t> RecordSalvage::next_head(std::uint64_t from) {
  constexpr auto magic = format::RecordHead::expected_magic;
  std::vector<char> bytes(format::chunk_bytes);
  while (from < byte_count_) {
    const auto read = file_.read_at(from, std::as_writable_bytes(std::span(bytes)));
    if (!read) return read.error();
    const auto end = bytes.begin() + static_cast<std::ptrdiff_t>(*read);
    const auto found = std::search(bytes.begin(), end, magic.begin(), magic.end());
    if (found != end) return from + static_cast<std::uint64_t>(found - bytes.begin());
    if (*read < bytes.size()) break;
    from += *read - magic.size() + 1;  // the magic may lie across two reads
  }
  return byte_count_;
}

}  // namespace sepal::storage
