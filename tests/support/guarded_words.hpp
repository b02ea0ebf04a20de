// Words of zeros behind which there is no memory: code that reads beyond the last one ends the test. The
// sanitizers do not see masked loads and gathers of vectors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace sepal::test {

class GuardedWords {
 public:
  GuardedWords() = default;  // none
  explicit GuardedWords(std::size_t count) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t usable = (count * sizeof(std::uint64_t) + page - 1) / page * page;
    void* const mapped =
        mmap(nullptr, usable + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) return;
    mapped_ = static_cast<std::byte*>(mapped);
    bytes_ = usable + page;
    if (mprotect(mapped_ + usable, page, PROT_NONE) != 0) return;
    words_ = reinterpret_cast<std::uint64_t*>(mapped_ + usable) - count;
  }
  ~GuardedWords() {
    if (mapped_ != nullptr) munmap(mapped_, bytes_);
  }
  GuardedWords(GuardedWords&& other) noexcept { swap(other); }
  GuardedWords& operator=(GuardedWords&& other) noexcept {
    swap(other);
    return *this;
  }

  // Null: the system has no memory.
  [[nodiscard]] std::uint64_t* get() const { return words_; }
  [[nodiscard]] std::uint64_t& operator[](std::size_t at) const { return words_[at]; }

 private:
  void swap(GuardedWords& other) noexcept {
    std::swap(mapped_, other.mapped_);
    std::swap(bytes_, other.bytes_);
    std::swap(words_, other.words_);
  }

  std::byte* mapped_ = nullptr;
  std::size_t bytes_ = 0;
  std::uint64_t* words_ = nullptr;
};

}  // namespace sepal::test
