// One request to a command of the module: its words, its key and its reply.
#pragma once

#include <sepal/bloom/filter/filter.hpp>
#include <sepal/bloom/window/window_filter.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "module/api.hpp"

namespace sepal::module {

using Words = std::span<const std::string_view>;

// Makes `words` those of the arguments. They are valid as long as the arguments.
void read_words(std::span<RedisModuleString* const> arguments, std::vector<std::string_view>& words);

// An open key. The server's main thread.
class Key {
 public:
  Key(RedisModuleCtx* context, RedisModuleString* name, int mode);
  ~Key();
  Key(const Key&) = delete;
  Key& operator=(const Key&) = delete;

  // Null where the key is free, or holds a value that is of no type of this module.
  [[nodiscard]] value::Value* value() const { return value_; }
  [[nodiscard]] bool is_free() const { return is_free_; }
  // The key holds a value that is no Bloom filter.
  [[nodiscard]] bool is_other() const { return !is_free_ && filter() == nullptr; }
  // Null where the key holds no Bloom filter.
  [[nodiscard]] bloom::Filter* filter() const { return value::as<bloom::Filter>(value_); }
  // Null where the key holds no filter that forgets.
  [[nodiscard]] bloom::WindowFilter* window() const { return value::as<bloom::WindowFilter>(value_); }
  // The key is open to be written. What it held is gone.
  void put(value::ValuePtr value);
  void expire_at(std::int64_t milliseconds);  // since 1970

 private:
  RedisModuleKey* key_;
  value::Value* value_ = nullptr;
  bool is_free_ = true;
};

// Writes a reply as sepald writes it, in the client's protocol. Without memory for a text the server ends, as
// it does when it has no memory itself: a reply that has begun cannot be taken back.
class Reply {
 public:
  explicit Reply(RedisModuleCtx* context) : context_(context) {}

  // Asks the server, which takes as long as a look-up.
  [[nodiscard]] bool is_resp3() const noexcept;
  void boolean(bool value) noexcept;  // 0 or 1 in RESP2
  void integer(std::int64_t value) noexcept;
  void integer_unsigned(std::uint64_t value) noexcept { integer(static_cast<std::int64_t>(value)); }
  // The shortest digits that read back as the same value, whole numbers without an exponent; RESP3: the
  // server's.
  void real(double value) noexcept;
  void null() noexcept;
  void ok() noexcept;
  void simple(std::string_view text) noexcept;
  void bulk(std::string_view text) noexcept;
  void error(std::string_view text) noexcept;  // without a '-'
  void array(std::size_t count) noexcept;
  void map(std::size_t pairs) noexcept;  // an array of twice as many in RESP2

 private:
  RedisModuleCtx* context_;
};

struct Request {
  RedisModuleCtx* context;
  std::span<RedisModuleString*> arguments;
  Words words;  // of the arguments
  Reply reply;

  [[nodiscard]] RedisModuleString* key() const { return arguments[1]; }
};

// The filter that the key must have. Null: the reply says why.
[[nodiscard]] const bloom::Filter* filter_or_refuse(Request& request, const Key& key);

}  // namespace sepal::module
