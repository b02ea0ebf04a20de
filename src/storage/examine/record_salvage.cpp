#include "storage/examine/record_salvage.hpp"

#include <sepal/storage/format/snapshot_format.hpp>

#include <algorithm>
#include <string>
#include <string_view>

#include "storage/disk/damage.hpp"
#include "storage/generation/generation_reader.hpp"

namespace sepal::storage {
namespace {

// False heads may cost this many times the file. Then heads are believed only if they are short, and records
// that a search has found are left at their ends. So no value makes the work grow faster than the file. A
// real file comes nowhere near: bytes hardly ever look like a head.
constexpr std::uint64_t wasted_factor_max = 16;
constexpr std::uint64_t wasted_bytes_min = std::uint64_t{64} << 20;
constexpr std::uint64_t short_head_bytes = 4096;

}  // namespace

Result<void> RecordSalvage::run(const format::ListedFile* listed, const Take& take, const Lose& lose) {
  const auto count = records_.read_header();
  if (!count) {
    if (!is_damage(count.error())) return count.error();
    lose(count.error());
    whole_ = false;
    reader_.go_to(std::min<std::uint64_t>(sizeof(format::FilterFileHeader), byte_count_));
  }
  if (count && listed != nullptr)
    if (auto right = check_count(*count, *listed); !right) lose(right.error());
  if (auto done = read_records(take, lose); !done) return done;
  // A file may have been cut where a record begins, and damage may have hidden the heads of some.
  const std::uint64_t expected = listed != nullptr ? listed->record_count : count ? *count : 0;
  if (found_ < expected)
    lose(damaged_at(byte_count_, std::to_string(expected - found_) + " of its " + std::to_string(expected) +
                                     " keys are missing"));
  // Another file, or an older one, may be whole in itself. A seal is compared only if every checksum was read
  // in order; else it cannot be right.
  if (whole_ && listed != nullptr && found_ == expected)
    if (auto right = check_seal(reader_.seal(), *listed); !right) lose(right.error());
  return {};
}

Result<void> RecordSalvage::read_records(const Take& take, const Lose& lose) {
  while (reader_.remaining() > 0) {
    const std::uint64_t start = reader_.offset();
    auto loaded = records_.read_record();
    if (loaded) {
      // The search is over, but reached_ stays by_search up to the end of the file: where this record begins
      // was only found, and the place of every later record rests on that.
      searching_ = false;
      ++found_;
      if (auto taken = take(*loaded, reached_); !taken) return taken;
      continue;
    }
    if (!is_damage(loaded.error()) && !is_over_limit(loaded.error())) return loaded.error();
    if (auto left = leave_damaged(start, loaded.error(), lose); !left) return left;
  }
  return {};
}

// Goes on behind a record that begins, or should begin, at `start` and cannot be read.
Result<void> RecordSalvage::leave_damaged(std::uint64_t start, const Error& error, const Lose& lose) {
  whole_ = false;
  const auto end = records_.end_of_record();
  // Counted and told once for a record whose head is right, and once for a region without such a head,
  // however many false heads the search meets in it. So found_ can be compared with what the MANIFEST says.
  if (end || !searching_) {
    ++found_;
    lose(error);
  }
  // A client can make a head that verifies and claims the filters behind it. So the end that a head names
  // counts only if the head was reached in order.
  if (end && (reached_ == Reached::in_order || wasted_too_much())) {
    searching_ = false;
    reader_.go_to(*end);
    return {};
  }
  // What this attempt has cost: the bytes of the head, or those of the whole record that it claims. The
  // search tries the next byte after that, so the same bytes can be read once for each false head.
  wasted_ += std::max(end.value_or(0), reader_.offset()) - start;
  if (wasted_too_much()) records_.limit_heads(short_head_bytes);
  reader_.go_to(start + 1);
  reached_ = Reached::by_search;
  searching_ = true;
  return search();
}

bool RecordSalvage::wasted_too_much() const {
  return wasted_ > wasted_bytes_min && wasted_ / wasted_factor_max > byte_count_;
}

// Goes to the next place where a head may begin, or to the end of the file.
Result<void> RecordSalvage::search() {
  for (;;) {
    const auto found = go_to_magic();
    const auto seen = found && *found ? records_.sees_head() : found;
    if (!seen && !is_damage(seen.error())) return seen.error();
    if (seen && *seen) return {};
    // Without an error there is none up to the end; with one, the file became shorter.
    if (!seen || !*found) break;
    reader_.skip(1);
  }
  reader_.go_to(byte_count_);
  return {};
}

// False where there is none up to the end.
Result<bool> RecordSalvage::go_to_magic() {
  constexpr auto magic = format::RecordHead::expected_magic;
  while (reader_.remaining() >= magic.size()) {
    // At least as long as the magic, so each round skips a byte or more.
    const auto bytes = reader_.peek(std::min<std::uint64_t>(reader_.remaining(), format::chunk_bytes));
    if (!bytes) return bytes.error();
    const std::string_view text(reinterpret_cast<const char*>(bytes->data()), bytes->size());
    const std::size_t at = text.find(std::string_view(magic.data(), magic.size()));
    if (at != std::string_view::npos) {
      reader_.skip(at);
      return true;
    }
    reader_.skip(text.size() - magic.size() + 1);  // the magic may lie across two pieces
  }
  return false;
}

}  // namespace sepal::storage
