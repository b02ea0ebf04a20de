// Room on the disk that is kept for the way out of a full disk: files of zeros in the data directory, named
// reserve-1 to reserve-4. They are removed when a start, a deletion or a save finds no room, and are made
// again as soon as there is room. Until all of them are there, the journal takes no room for other changes.
// They begin small, and the journal lets them grow with its segments.
//
//     reserve-1 and -2    the journal may take their room, for segments of their size, but never the
//                         last piece
//     all of them         a save may borrow them until it ends. If the data has grown, the room does not
//                         come back with the end of the old generation: then the save borrows reserve-3
//                         and -4 only, and keys can still be removed after it
#pragma once

#include <sepal/base/assert.hpp>
#include <sepal/base/result.hpp>
#include <sepal/storage/disk/disk.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace sepal::storage {

// Synchronised: the journal's thread makes the pieces, the saver borrows them.
class Reserve {
 public:
  static constexpr std::size_t piece_count = 4;
  static constexpr std::size_t journal_piece_count = 2;
  static_assert(journal_piece_count < piece_count, "a save finds more than the journal may take");

  // The reserve has at most about so many bytes; 0: no reserve is kept. Removes longer pieces, makes none.
  // Blocks. Errors: those of Disk.
  static Result<std::unique_ptr<Reserve>> open(Disk& disk, Path directory, std::uint64_t byte_count);

  // Whether a file of this name is a piece of a reserve.
  [[nodiscard]] static bool is_piece(std::string_view name);

  // The least length of a piece. At first it is that of the shortest one that is there. On the journal's
  // thread, as all members up to `whole`.
  [[nodiscard]] std::uint64_t piece_bytes() const { return piece_bytes_; }
  [[nodiscard]] std::uint64_t piece_bytes_max() const { return piece_bytes_max_; }
  // Makes it at least so many bytes, as far as pieces may have as many. Makes no pieces.
  void demand(std::uint64_t piece_bytes);
  // Does the same to a whole reserve, and makes all pieces as long. Without room for that, the reserve stays
  // whole. Blocks.
  void grow(std::uint64_t piece_bytes);
  [[nodiscard]] std::uint64_t missing_bytes() const;
  [[nodiscard]] bool whole() const { return missing_bytes() == 0; }
  [[nodiscard]] std::uint64_t byte_count() const { return bytes_from(0); }  // that is there
  [[nodiscard]] bool lent() const { return lent_; }

  // Looks which pieces are there: the directory may be another one. Nothing changes while lent, or where the
  // disk does not tell. Blocks.
  void look_again();

  // Removes one piece, so that the journal can take its room. False when the journal has had its share.
  // Blocks.
  bool give_to_journal();
  struct Loan {
    std::uint64_t byte_count = 0;
    bool for_good = false;  // the room will not come back when the save ends
  };
  // Removes all pieces, and keeps them away until returned(). For good: those behind the journal's share.
  // False when they are not as much as is wanted: then they stay for other ways out. Blocks.
  bool lend(const Loan& wanted);
  void returned() {
    const bool was_lent = lent_.exchange(false);
    SEPAL_ASSERT(was_lent, "a reserve is returned that was not lent");
  }
  // Makes the pieces that are missing or too short; on the journal's thread. Blocks. Errors: in_use while
  // lent, those of Disk.
  Result<void> restore();

 private:
  Reserve(Disk& disk, Path directory, std::uint64_t byte_count);
  [[nodiscard]] Path path(std::size_t piece) const;
  Result<void> look();
  [[nodiscard]] std::uint64_t allowed(std::uint64_t piece_bytes) const;
  Result<void> make(std::size_t piece, std::uint64_t piece_bytes);
  bool remove(std::size_t piece);
  [[nodiscard]] std::uint64_t bytes_from(std::size_t first_piece) const;

  Disk& disk_;
  const Path directory_;
  const std::uint64_t piece_bytes_max_;
  std::uint64_t piece_bytes_ = 0;
  std::array<std::atomic<std::uint64_t>, piece_count> bytes_{};  // of each piece; 0: it is not there
  std::atomic<bool> lent_{false};
  bool made_once_ = false;  // used by the journal's thread
};

}  // namespace sepal::storage
