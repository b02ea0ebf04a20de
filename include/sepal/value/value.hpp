// A value: what a key names. A filter is one kind of value, a string another.
//
// A value has no virtual table, because there are millions of small filters: the kind stands in one byte of
// its header, and kind_row.hpp has the functions of each kind. A kind derives its class from Value:
//
//     class Filter final : public value::Value {
//      public:
//       static constexpr value::Kind own_kind = value::Kind::bloom;
//
// and may put members of its own behind the kind, where the header has three bytes left.
#pragma once

#include <sepal/base/assert.hpp>

#include <boost/smart_ptr/intrusive_ptr.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>

// GCC warns that ThreadSanitizer ignores fences. That is harmless here: ThreadSanitizer only misses an order
// that exists.
#if defined(__SANITIZE_THREAD__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wtsan"
#endif

namespace sepal::value {

// The numbers stand in files (docs/formats.md), and are the indexes of `kinds` (kind_row.hpp).
enum class Kind : std::uint8_t { bloom = 0, string = 1, cuckoo = 2, redis_cuckoo = 3, window = 4 };

// A number for KindRow::identity, or for a part of a value. One counter for the whole process: with one for
// each kind, a value could have the number of another one that was under its key before. Any thread.
[[nodiscard]] std::uint64_t new_identity();

// Any thread may make and drop pointers to a value. A kind says how its other members are guarded.
class Value {
 public:
  Value(const Value&) = delete;
  Value& operator=(const Value&) = delete;

  [[nodiscard]] Kind kind() const { return kind_; }
  // The pointers to this value, that of a limbo among them. When it is 1, and the caller's pointer is under
  // no key, no other thread can make another one: a worker that has found the value before has left its
  // batch.
  [[nodiscard]] std::uint32_t use_count() const {
    return references_.load(std::memory_order_acquire) & count_bits;
  }

  // The value is about to lose its key while other workers may add to it. An add that begins from now on
  // finds it held, and gives up; adds that have begun are waited for (keyspace::MutationLog::wait_for_adds).
  // So their records come before that of the removal. It stays held.
  void hold() const {
    references_.fetch_or(held_bit, std::memory_order_seq_cst);
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  // Asked by an add behind a fence that follows what tells of its begin (MutationLog::begin_add).
  [[nodiscard]] bool held() const { return (references_.load(std::memory_order_seq_cst) & held_bit) != 0; }

  // No record in the journal has the value yet: the log of the worker that has made it still gathers
  // (MutationLog). An add of another worker has that log append first.
  void set_unrecorded() const { references_.fetch_or(unrecorded_bit, std::memory_order_relaxed); }
  void set_recorded() const { references_.fetch_and(~unrecorded_bit, std::memory_order_release); }
  [[nodiscard]] bool unrecorded() const {
    return (references_.load(std::memory_order_acquire) & unrecorded_bit) != 0;
  }
  // Either of them. Most adds ask no more.
  [[nodiscard]] bool held_or_unrecorded() const {
    return (references_.load(std::memory_order_seq_cst) & ~count_bits) != 0;
  }

 protected:
  explicit Value(Kind kind) : kind_(kind) {}
  ~Value() = default;  // KindRow::destroy knows the class

 private:
  friend void intrusive_ptr_add_ref(const Value* value) {
    value->references_.fetch_add(1, std::memory_order_relaxed);
  }
  friend void intrusive_ptr_release(const Value* value) {
    // The last one must see all that the others did.
    if ((value->references_.fetch_sub(1, std::memory_order_acq_rel) & count_bits) == 1) destroy(value);
  }
  static void destroy(const Value* value);

  // In the highest bits of the count, because millions of values are small.
  static constexpr std::uint32_t held_bit = std::uint32_t{1} << 31;
  static constexpr std::uint32_t unrecorded_bit = std::uint32_t{1} << 30;
  static constexpr std::uint32_t count_bits = ~(held_bit | unrecorded_bit);

  mutable std::atomic<std::uint32_t> references_{0};
  const Kind kind_;
};

// Shared, because a running save may be the last user of a value that has lost its key.
using ValuePtr = boost::intrusive_ptr<Value>;

// The value as its class; null where it is null or of another kind.
template <class Class>
[[nodiscard]] Class* as(Value* value) {
  return value != nullptr && value->kind() == Class::own_kind ? static_cast<Class*>(value) : nullptr;
}
template <class Class>
[[nodiscard]] const Class* as(const Value* value) {
  return value != nullptr && value->kind() == Class::own_kind ? static_cast<const Class*>(value) : nullptr;
}

// The value as its class: the caller has asked for its kind.
template <class Class>
[[nodiscard]] Class& as(Value& value) {
  SEPAL_ASSERT(value.kind() == Class::own_kind, "a value is taken for one of another kind");
  return static_cast<Class&>(value);
}
template <class Class>
[[nodiscard]] const Class& as(const Value& value) {
  SEPAL_ASSERT(value.kind() == Class::own_kind, "a value is taken for one of another kind");
  return static_cast<const Class&>(value);
}

// What a value may become. Checked before anything is allocated.
struct Limits {
  std::uint64_t bytes_max = 0;    // all memory of the value
  std::uint32_t layers_max = 64;  // for kinds that grow in layers
};

}  // namespace sepal::value
