// What a filter asks before it takes memory while it has a key, and whom it gives what readers may still see.
#pragma once

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

}  // namespace sepal::cuckoo
