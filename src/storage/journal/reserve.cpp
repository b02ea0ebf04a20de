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
    : disk_(disk),
      directory_(std::move(directory)),
      piece_bytes_max_(whole_pages(byte_count / piece_count)) {}

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
    bytes_[piece] = *size;
    // The setting has changed since. remove() acts on noted pieces only.
    if (*size > piece_bytes_max_) remove(piece);
  }
  for (const auto& bytes : bytes_)
    if (bytes != 0) piece_bytes_ = piece_bytes_ == 0 ? bytes.load() : std::min(piece_bytes_, bytes.load());
  return {};
}

void Reserve::look_again() {
  for (std::size_t piece = 0; piece < piece_count && !lent_; ++piece) {
    const auto there = disk_.exists(path(piece));
    // A save that begins to borrow the pieces meanwhile finds one less.
    if (there && !*there) bytes_[piece] = 0;
  }
}

std::uint64_t Reserve::bytes_from(std::size_t first_piece) const {
  std::uint64_t bytes = 0;
  for (std::size_t piece = first_piece; piece < piece_count; ++piece) bytes += bytes_[piece];
  return bytes;
}

std::uint64_t Reserve::allowed(std::uint64_t piece_bytes) const {
  return std::min(whole_pages(piece_bytes), piece_bytes_max_);
}

void Reserve::demand(std::uint64_t piece_bytes) {
  piece_bytes_ = std::max(piece_bytes_, allowed(piece_bytes));
}

// The pieces that have grown stay longer when there is no room for the others.
void Reserve::grow(std::uint64_t piece_bytes) {
  if (allowed(piece_bytes) <= piece_bytes_ || !whole()) return;
  for (std::size_t piece = 0; piece < piece_count; ++piece)
    if (bytes_[piece] < allowed(piece_bytes) && (lent_ || !make(piece, allowed(piece_bytes)))) return;
  demand(piece_bytes);
}

std::uint64_t Reserve::missing_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& there : bytes_) bytes += piece_bytes_ - std::min(there.load(), piece_bytes_);
  return bytes;
}

// The exchange lets only one thread remove a piece, so no piece is counted twice. A piece whose file cannot
// be removed does not count any more; restore() tries to remove it again.
bool Reserve::remove(std::size_t piece) {
  if (bytes_[piece].exchange(0) == 0) return false;
  const auto removed = disk_.remove(path(piece));
  if (!removed)
    log::warn("reserve_not_removed", "piece of the reserve not removed",
              {{"reason", removed.error().detail}});
  return removed.ok();
}

// The pieces behind journal_piece_count stay for a save: its success is what frees room. If the data has
// grown into them, one of the others stays.
bool Reserve::give_to_journal() {
  if (std::ranges::count_if(bytes_, [](const auto& bytes) { return bytes != 0; }) <= 1) return false;
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

// A piece that is to be longer is made anew, where its old room counts. If that is too little, it is made as
// long as it was.
Result<void> Reserve::make(std::size_t piece, std::uint64_t piece_bytes) {
  const std::uint64_t before = bytes_[piece].exchange(0);
  // The name may still be taken, by a piece that could not be removed.
  if (auto removed = disk_.remove(path(piece)); !removed) return removed;
  // Only the room counts. A piece is not synced: a start makes it anew if a crash takes it.
  auto made = disk_.create_mapped(path(piece), piece_bytes);
  if (made) {
    bytes_[piece] = piece_bytes;
  } else if (before != 0 && disk_.create_mapped(path(piece), before)) {
    bytes_[piece] = before;
  }
  // lend() may have begun meanwhile, and passed over this piece, which was not noted. It sets lent_ before it
  // looks for pieces, and this notes the piece before it looks at lent_: so one of them sees the other.
  if (lent_ && remove(piece)) return fail(Errc::in_use, "a save uses the reserve");
  return made ? Result<void>() : made.error();
}

Result<void> Reserve::restore() {
  for (std::size_t piece = 0; piece < piece_count; ++piece) {
    // Asked before each piece, because a save may begin to borrow the reserve meanwhile.
    if (lent_) return fail(Errc::in_use, "a save uses the reserve");
    if (bytes_[piece] >= piece_bytes_) continue;
    if (auto made = make(piece, piece_bytes_); !made) return made;
    if (!whole()) continue;
    // A disk that stays full makes the server lend and make the reserve several times a second.
    log::write(std::exchange(made_once_, true) ? log::Level::debug : log::Level::info, "reserve_made",
               "reserve made", {{"bytes", byte_count()}});
  }
  return {};
}

}  // namespace sepal::storage
