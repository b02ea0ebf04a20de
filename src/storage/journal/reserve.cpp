#include <sepal/log/event.hpp>
#include <sepal/storage/journal/reserve.hpp>

#include <algorithm>
#include <utility>

namespace sepal::storage {
namespace {

constexpr std::uint64_t piece_bytes_unit = 4096;

std::uint64_t whole_pages(std::uint64_t byte_count) {
  return byte_count + (0 - byte_count) % piece_bytes_unit;
}

std::string piece_name(std::size_t piece) {
  return "reserve-" + std::to_string(piece + 1);
}

}  // namespace

bool Reserve::is_piece(std::string_view name) {
  for (std::size_t piece = 0; piece < piece_count; ++piece)
    if (name == piece_name(piece)) return true;
  return false;
}

Reserve::Reserve(Disk& disk, Path directory, std::uint64_t byte_count)
    : disk_(disk), directory_(std::move(directory)), piece_bytes_(whole_pages(byte_count / piece_count)) {}

Result<std::unique_ptr<Reserve>> Reserve::open(Disk& disk, Path directory, std::uint64_t byte_count) {
  std::unique_ptr<Reserve> reserve(new Reserve(disk, std::move(directory), byte_count));
  if (auto looked = reserve->look(); !looked) return looked.error();
  return reserve;
}

Path Reserve::path(std::size_t piece) const {
  SEPAL_ASSERT(piece < piece_count, "a piece that the reserve does not have");
  return directory_ / piece_name(piece);
}

Result<void> Reserve::look() {
  for (std::size_t piece = 0; piece < piece_count; ++piece) {
    const auto there = disk_.exists(path(piece));
    if (!there) return there.error();
    if (!*there) continue;
    const auto file = disk_.open(path(piece));
    if (!file) return file.error();
    const auto size = (*file)->size();
    if (!size) return size.error();
    there_[piece] = true;
    // The setting has changed since, or a crash left a piece that has not its full length. remove() acts
    // on noted pieces only.
    if (piece_bytes_ == 0 || *size != piece_bytes_) remove(piece);
  }
  return {};
}

std::uint64_t Reserve::bytes_from(std::size_t first_piece) const {
  std::uint64_t bytes = 0;
  for (std::size_t piece = first_piece; piece < piece_count; ++piece)
    bytes += there_[piece] ? piece_bytes_ : 0;
  return bytes;
}

std::uint64_t Reserve::byte_count() const {
  return bytes_from(0);
}

bool Reserve::whole() const {
  return piece_bytes_ == 0 || std::ranges::all_of(there_, [](const auto& there) { return there.load(); });
}

// The exchange lets only one thread remove a piece, so no piece is counted twice. A piece whose file cannot
// be removed does not count any more; restore() tries to remove it again.
bool Reserve::remove(std::size_t piece) {
  if (!there_[piece].exchange(false)) return false;
  const auto removed = disk_.remove(path(piece));
  if (!removed)
    log::warn("reserve_not_removed", "piece of the reserve not removed",
              {{"reason", removed.error().detail}});
  return removed.ok();
}

// The pieces behind journal_piece_count stay for a save: its success is what frees room. If the data has
// grown into them, one of the others stays.
bool Reserve::give_to_journal() {
  if (byte_count() <= piece_bytes_) return false;
  for (std::size_t piece = 0; piece < journal_piece_count; ++piece)
    if (remove(piece)) return true;
  return false;
}

bool Reserve::lend(const Loan& wanted) {
  const std::size_t first = wanted.for_good ? journal_piece_count : 0;
  if (wanted.byte_count > bytes_from(first)) return false;
  // Set before the pieces go: the journal's thread must not make them again meanwhile (restore()).
  const bool was_lent = lent_.exchange(true);
  SEPAL_ASSERT(!was_lent, "a reserve is lent twice");
  bool any = false;
  for (std::size_t piece = first; piece < piece_count; ++piece) any = remove(piece) || any;
  if (!any) lent_ = false;
  return any;
}

Result<void> Reserve::restore() {
  for (std::size_t piece = 0; piece < piece_count && piece_bytes_ != 0; ++piece) {
    // Asked before each piece, because a save may begin to borrow the reserve meanwhile.
    if (lent_) return fail(Errc::in_use, "a save uses the reserve");
    if (there_[piece]) continue;
    // The name may still be taken, by a piece that could not be removed.
    if (auto removed = disk_.remove(path(piece)); !removed) return removed;
    // Only the room counts. A piece is not synced: a start makes it anew if a crash takes it.
    if (auto made = disk_.create_mapped(path(piece), piece_bytes_); !made) return made.error();
    there_[piece] = true;
    // lend() may have begun while the file was made, and passed over a piece that was not noted yet. It sets
    // lent_ before it looks for pieces, and this notes the piece before it looks at lent_: so one of them
    // sees the other.
    if (lent_ && remove(piece)) return fail(Errc::in_use, "a save uses the reserve");
    if (!whole()) continue;
    // A disk that stays full makes the server lend and make the reserve several times a second.
    log::write(std::exchange(made_once_, true) ? log::Level::debug : log::Level::info, "reserve_made",
               "reserve made", {{"bytes", byte_count()}});
  }
  return {};
}

}  // namespace sepal::storage
