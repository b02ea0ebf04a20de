// What replicas and the AOF are told of a change: its effect, and not the request.
//
// They are told the shape of a filter that is created or grows (BF.SHAPE), and the items that were new, and
// no others. So a server of another version, which would plan other layers, makes the same bits, and an add
// of known items tells them nothing.
#pragma once

#include <sepal/bloom/filter/filter.hpp>

#include <cstdint>
#include <span>
#include <vector>

#include "module/request.hpp"

namespace sepal::module {

// Confined to one request, of which it tells the changes in their order. A change that has been made must be
// told. So without memory to tell it the server ends, as it does when it has no memory itself; only what
// grows with the request is allocated before the change.
class Effects {
 public:
  explicit Effects(const Request& request) : request_(request) {}

  // Called before the first of so many items is added. Throws bad_alloc.
  void reserve_items(std::size_t count) {
    if (count > few_items) items_.reserve(count);
  }

  // The filter was created, or has a new layer.
  void shape(const bloom::Filter& filter) noexcept;
  // These words of the request are items that were added: those whose `added` is true. `first` is the index
  // of the first word.
  void items(std::size_t first, std::span<const bool> added) noexcept;
  // The request as it stands.
  void request() noexcept;
  // The key expires at this time: milliseconds since 1970.
  void deadline(std::int64_t milliseconds) noexcept;
  // Tells clients that watch the key. Only if there was an effect.
  void end() noexcept;

 private:
  static constexpr std::size_t few_items = 64;  // items() has place for them on its stack

  const Request& request_;
  std::vector<RedisModuleString*> items_;  // used by items() alone
  bool any_ = false;
};

}  // namespace sepal::module
