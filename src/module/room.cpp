#include "module/room.hpp"

#include <sepal/base/checked.hpp>
#include <sepal/value/heap.hpp>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <unistd.h>

#include "module/value_types.hpp"

namespace sepal::module {
namespace {

// The server's answer takes 40 us, ten times as long as to create a small filter. Below this size the flag
// deny-oom of the commands is enough: above maxmemory, the server itself refuses them.
constexpr std::uint64_t asked_bytes_min = std::uint64_t{1} << 20;

// The bound if the operator has set no maxmemory. Linux promises more memory than it has, and kills the
// server when it uses that memory.
std::uint64_t memory_of_machine() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page_bytes = sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page_bytes <= 0) return no_limits.bytes_max;
  return static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page_bytes);
}

// The bytes that a new filter or layer may take. With a policy of eviction, the server removes other keys
// for it, so all of maxmemory is room. A replica refuses nothing, because its master has admitted the filter.
// The same holds for the load of an AOF.
std::uint64_t room(RedisModuleCtx* context) {
  if ((api.GetContextFlags(context) & (context_is_replica | context_is_loading)) != 0)
    return no_limits.bytes_max;
  RedisModuleServerInfoData* const info = api.GetServerInfo(context, "memory");
  if (info == nullptr) return no_limits.bytes_max;
  int error = 0;
  const std::uint64_t maxmemory = api.ServerInfoGetFieldUnsigned(info, "maxmemory", &error);
  const std::uint64_t used = api.ServerInfoGetFieldUnsigned(info, "used_memory", &error);
  const char* const policy = api.ServerInfoGetFieldC(info, "maxmemory_policy");
  const bool evicts = policy != nullptr && std::string_view(policy) != "noeviction";
  api.FreeServerInfo(context, info);
  if (error != 0 || maxmemory == 0) return memory_of_machine();
  return evicts ? maxmemory : maxmemory - std::min(maxmemory, used);
}

std::uint64_t growth_bytes(std::uint64_t newest, std::uint32_t expansion) {
  if (expansion == 0) return 0;
  return checked_multiply(newest, 2 * (std::uint64_t{expansion} + 1)).value_or(no_limits.bytes_max);
}

// The server's Calloc ends the process if there is no memory. So a large piece is asked for by a function
// that returns null instead, if the server has one.
void* allocate(std::size_t byte_count) {
  constexpr std::size_t large = 1 << 20;
  if (byte_count >= large) {
    if (api.TryCalloc != nullptr) return api.TryCalloc(1, byte_count);
    // TryAlloc() does not zero its memory. So it only shows that there is enough, and Calloc() then takes it.
    if (api.TryAlloc != nullptr) {
      void* const tried = api.TryAlloc(byte_count);
      if (tried == nullptr) return nullptr;
      api.Free(tried);
    }
  }
  return api.Calloc(1, byte_count);
}

void release(void* allocated) {
  api.Free(allocated);
}

}  // namespace

value::Limits limits_of_new(RedisModuleCtx* context, std::uint64_t bytes) {
  if (bytes < asked_bytes_min) return no_limits;
  return {.bytes_max = room(context), .layers_max = no_limits.layers_max};
}

value::Limits limits_of(RedisModuleCtx* context, std::uint64_t byte_count, std::uint64_t bytes) {
  if (bytes < asked_bytes_min) return no_limits;
  // room() may answer all that no_limits has, so the sum is bounded here.
  const std::uint64_t more = std::min(room(context), no_limits.bytes_max - byte_count);
  return {.bytes_max = byte_count + more, .layers_max = no_limits.layers_max};
}

std::uint64_t growth_bytes_max(const bloom::Filter& filter) {
  return growth_bytes(filter.layers().back().plan().byte_count(), filter.options().expansion);
}

std::uint64_t growth_bytes_max(const bloom::WindowFilter& filter) {
  return growth_bytes(filter.byte_count(), filter.options().expansion);
}

void use_memory_of_server() {
  value::use_allocator({.allocate = allocate, .release = release});
}

}  // namespace sepal::module
