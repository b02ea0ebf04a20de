#include "module/request.hpp"

#include <sepal/base/arguments.hpp>
#include <sepal/base/assert.hpp>
#include <sepal/bloom/commands/texts.hpp>

#include <cmath>
#include <string>
#include <utility>

#include "module/value_types.hpp"

namespace sepal::module {

void read_words(std::span<RedisModuleString* const> arguments, std::vector<std::string_view>& words) {
  words.clear();
  for (const RedisModuleString* const argument : arguments) {
    std::size_t length = 0;
    const char* const begin = api.StringPtrLen(argument, &length);
    words.emplace_back(begin, length);
  }
}

Key::Key(RedisModuleCtx* context, RedisModuleString* name, int mode)
    : key_(api.OpenKey(context, name, mode)) {
  // OpenKey() returns null for a free key that is opened only to be read.
  if (key_ == nullptr || api.KeyType(key_) == key_is_empty) return;
  is_free_ = false;
  // A value of another module has the same KeyType() as a filter, so the type itself is compared.
  value_ = value_in(key_);
}

Key::~Key() {
  if (key_ != nullptr) api.CloseKey(key_);
}

void Key::put(value::ValuePtr value) {
  SEPAL_ASSERT(key_ != nullptr, "a value is put under a key that is open to be written");
  value_ = value.get();
  is_free_ = false;
  put_value(key_, std::move(value));
}

void Key::expire_at(std::int64_t milliseconds) {
  api.SetAbsExpire(key_, milliseconds);
}

bool Reply::is_resp3() const noexcept {
  return (api.GetContextFlags(context_) & context_is_resp3) != 0;
}

// The server's functions for booleans and maps know the client's protocol, so is_resp3() need not be asked.
// Before Redis 7.0 there are none, and a RESP3 client gets the replies of RESP2.
void Reply::boolean(bool value) noexcept {
  if (api.ReplyWithBool != nullptr) {
    api.ReplyWithBool(context_, value ? 1 : 0);
  } else {
    api.ReplyWithLongLong(context_, value ? 1 : 0);
  }
}

void Reply::integer(std::int64_t value) noexcept {
  api.ReplyWithLongLong(context_, value);
}

// The server's own text for RESP2 has 17 digits, though fewer often read back as the same number.
void Reply::real(double value) noexcept {
  if (is_resp3()) {
    api.ReplyWithDouble(context_, value);
    return;
  }
  // As sepald: a whole number has no exponent.
  constexpr double whole_max = 4503599627370496;  // 2^52
  const bool is_whole = std::abs(value) <= whole_max && std::nearbyint(value) == value;
  bulk(is_whole ? std::to_string(static_cast<std::int64_t>(value)) : digits_of_real(value));
}

void Reply::null() noexcept {
  api.ReplyWithNull(context_);
}

void Reply::ok() noexcept {
  simple("OK");
}

void Reply::simple(std::string_view text) noexcept {
  api.ReplyWithSimpleString(context_, std::string(text).c_str());
}

void Reply::bulk(std::string_view text) noexcept {
  api.ReplyWithStringBuffer(context_, text.data(), text.size());
}

void Reply::error(std::string_view text) noexcept {
  api.ReplyWithError(context_, std::string(text).c_str());
}

void Reply::array(std::size_t count) noexcept {
  api.ReplyWithArray(context_, static_cast<long>(count));
}

void Reply::map(std::size_t pairs) noexcept {
  if (api.ReplyWithMap != nullptr) {
    api.ReplyWithMap(context_, static_cast<long>(pairs));
  } else {
    array(2 * pairs);
  }
}

const bloom::Filter* filter_or_refuse(Request& request, const Key& key) {
  if (key.filter() == nullptr)
    request.reply.error(key.is_other() ? bloom::text::wrong_type : bloom::text::filter_not_found);
  return key.filter();
}

}  // namespace sepal::module
