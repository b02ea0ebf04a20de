// What a filter asks before it takes memory while it has a key, and whom it gives what readers may still see.
#pragma once

#include <atomic>
#include <cstdint>

namespace sepal::cuckoo {

// Confined to the thread that changes the filter.
class Memory {
 public:
  // Whether the filter may take so many bytes more.
  [[nodiscard]] virtual bool may_take(std::uint64_t bytes) = 0;
  // The filter has taken so many; below 0: it has given them back.
  virtual void took(std::int64_t bytes) = 0;
  // Calls end(object) when no thread can read the object any more.
  virtual void retire(void* object, void (*end)(void*)) = 0;

 protected:
  ~Memory() = default;
};

// For a filter that no other thread can find: nothing limits it, and what it retires ends at once.
class OwnMemory final : public Memory {
 public:
  [[nodiscard]] bool may_take(std::uint64_t /*bytes*/) override { return true; }
  void took(std::int64_t /*bytes*/) override {}
  void retire(void* object, void (*end)(void*)) override { end(object); }
};

// The bytes of a filter, which are in the account of its keyspace as long as a key names it. A worker that
// found the filter may change it after it has lost its key: what the worker adds to the account then would
// stay there. One word has the bytes, and whether they are in the account: so each change is
// counted in both, or in the filter alone. Synchronised.
class Account {
 public:
  // Whether the filter may take so many bytes more.
  [[nodiscard]] bool may_take(std::uint64_t bytes, Memory& memory) {
    const bool may = memory.may_take(bytes);
    if (!may || bytes >= bytes_refused()) refused_.store(may ? 0 : bytes, std::memory_order_relaxed);
    return may;
  }
  // What the filter was refused last, and what it has not been given since; 0: nothing.
  [[nodiscard]] std::uint64_t bytes_refused() const { return refused_.load(std::memory_order_relaxed); }
  // The filter has taken so many bytes; below 0: it has given them back.
  void took(std::int64_t bytes, Memory& memory) {
    const std::uint64_t before =
        bytes_.fetch_add(static_cast<std::uint64_t>(bytes), std::memory_order_relaxed);
    if ((before & settled_bit) == 0) memory.took(bytes);
  }
  [[nodiscard]] std::uint64_t byte_count() const {
    return bytes_.load(std::memory_order_relaxed) & ~settled_bit;
  }
  // The filter loses its key. Returns what is in the keyspace's account, or comes there from calls of took()
  // that have begun.
  std::uint64_t settle() { return bytes_.fetch_or(settled_bit, std::memory_order_relaxed) & ~settled_bit; }

 private:
  static constexpr std::uint64_t settled_bit = std::uint64_t{1} << 63;
  std::atomic<std::uint64_t> bytes_{0};
  std::atomic<std::uint64_t> refused_{0};
};

}  // namespace sepal::cuckoo
