// Result<T>: the only way a function of Sepal fails.
//
// An Error is a code from one list and, where a person will read it, a sentence. Code that reacts looks at
// the code; code that reports prints the sentence. Texts that clients see are made from codes in one table
// (command/error_texts.hpp), never from sentences.
#pragma once

#include <sepal/base/assert.hpp>

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

namespace sepal {

enum class Errc : std::uint8_t {
  // What a caller asked for.
  out_of_range,   // an argument lies outside its documented range
  too_large,      // the size asked for exceeds the limit that was passed, or cannot be represented
  memory_limit,   // the memory account would exceed its limit; nothing was allocated
  out_of_memory,  // the system refused memory
  mapping_limit,  // sparse strings have as many of the process's mappings as they may
  no_such_key,    // the key names nothing
  key_exists,     // the key is taken
  filter_full,    // a non-scaling filter holds its capacity
  layer_limit,    // the filter may not grow another layer
  key_limit,      // the keyspace holds as many keys as it may
  key_too_long,   // the key is longer than keys may be
  // What the environment did.
  io,                   // an operation of the disk failed; the sentence says which, on what, and why
  disk_full,            // no space, or over quota
  read_only,            // the place may not be written
  in_use,               // another process holds the lock or the port
  not_found,            // a file or directory does not exist
  damaged,              // bytes do not match their checksum or their format
  unsupported_version,  // a format that this build does not know
  not_recorded,         // the journal takes no changes; the sentence says why
  invalid_setting,      // a setting is unknown, of the wrong type or out of range
};

struct Error {
  Errc code;
  std::string detail;  // for people; may be empty
};

[[nodiscard]] inline Error fail(Errc code, std::string detail = {}) {
  return Error{code, std::move(detail)};
}

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}
  template <class Other>
  requires std::is_convertible_v<Other, T> Result(Result<Other> other)
      : Result(other.ok() ? Result(T(*std::move(other))) : Result(Error(other.error()))) {}

  [[nodiscard]] bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // Asserts ok().
  T& operator*() & { return checked(); }
  const T& operator*() const& { return const_cast<Result*>(this)->checked(); }
  T&& operator*() && { return std::move(checked()); }
  T* operator->() { return &checked(); }
  const T* operator->() const { return &const_cast<Result*>(this)->checked(); }

  // Asserts !ok().
  [[nodiscard]] const Error& error() const {
    SEPAL_ASSERT(!ok(), "error() of a result that holds a value");
    return *std::get_if<1>(&state_);
  }

 private:
  T& checked() {
    SEPAL_ASSERT(ok(), "value of a result that holds an error");
    return *std::get_if<0>(&state_);
  }
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)), ok_(false) {}

  [[nodiscard]] bool ok() const { return ok_; }
  explicit operator bool() const { return ok_; }
  [[nodiscard]] const Error& error() const {
    SEPAL_ASSERT(!ok_, "error() of a result that holds a value");
    return error_;
  }

 private:
  Error error_{};
  bool ok_ = true;
};

}  // namespace sepal
