#include <sepal/base/memory_reserve.hpp>

#include <array>
#include <sys/mman.h>

namespace sepal::memory_reserve {
namespace {

std::array<std::atomic<void*>, piece_count> pieces{};
std::atomic<std::uint64_t> use_count{0};

void give_back(void* piece) {
  static_cast<void>(::munmap(piece, piece_bytes));
}

// operator new calls this again and again until it succeeds, or until this throws.
void release_one() {
  for (std::atomic<void*>& piece : pieces) {
    void* const taken = piece.exchange(nullptr);
    if (taken == nullptr) continue;
    give_back(taken);
    // After the exchange: see renew().
    broken.store(true);
    use_count.fetch_add(1);
    return;
  }
  throw std::bad_alloc();
}

}  // namespace

void begin() {
  static_cast<void>(renew());
  std::set_new_handler(release_one);
}

bool renew() {
  // Before the pieces are looked at: a thread that takes one meanwhile sets it again.
  broken.store(false);
  for (std::atomic<void*>& piece : pieces) {
    if (piece.load() != nullptr) continue;
    void* const mapped =
        ::mmap(nullptr, piece_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) {
      broken.store(true);
      return false;
    }
    // Another thread may have taken the piece at the same time.
    void* none = nullptr;
    if (!piece.compare_exchange_strong(none, mapped)) give_back(mapped);
  }
  return true;
}

std::uint64_t uses() {
  return use_count.load();
}

}  // namespace sepal::memory_reserve
