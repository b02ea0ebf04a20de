// What CF commands have in common: the refusals of keys without a filter that deletes, and the memory of one.
#pragma once

#include <sepal/bloom/commands/texts.hpp>
#include <sepal/cuckoo/commands/found.hpp>
#include <sepal/cuckoo/commands/options.hpp>
#include <sepal/cuckoo/native/memory.hpp>

#include <cstdint>

#include "module/request.hpp"
#include "module/room.hpp"

namespace sepal::module {

// Both answer an error if they return true. The key has a value of another kind:
[[nodiscard]] inline bool refuses_other_than_cuckoo(Request& request, const Key& key) {
  if (key.is_free() || !cuckoo::Found(key.value()).none()) return false;
  request.reply.error(bloom::text::wrong_type);
  return true;
}
// The same, or it is free:
[[nodiscard]] inline bool refuses_no_cuckoo(Request& request, const Key& key) {
  if (key.is_free()) request.reply.error(cuckoo::text::not_found);
  return key.is_free() || refuses_other_than_cuckoo(request, key);
}

// What a filter of Sepal's own may take while it changes. No thread reads it meanwhile.
class ServerMemory final : public cuckoo::Memory {
 public:
  explicit ServerMemory(RedisModuleCtx* context) : context_(context) {}
  bool may_take(std::uint64_t bytes) override { return bytes <= limits_of_new(context_, bytes).bytes_max; }
  void took(std::int64_t /*bytes*/) override {}
  void retire(void* object, void (*end)(void*)) override { end(object); }

 private:
  RedisModuleCtx* context_;
};

}  // namespace sepal::module
