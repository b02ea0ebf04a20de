// What replicas and the AOF are told of a change: its effect, and not the request.
//
// They are told the shape of a filter that is created or grows (BF.SHAPE), and the items that were new, and
// no others. So a server of another version, which would plan other layers, makes the same bits, and an add
// of known items tells them nothing.
#pragma once

#include <sepal/filter/filter.hpp>

#include <cstdint>
#include <span>

#include "request.hpp"

namespace sepal::module {

// Confined to one request, of which it tells the changes in their order.
class Effects {
 public:
  explicit Effects(const Request& request) : request_(request) {}

  // The filter was created, or has a new layer.
  void shape(const filter::Filter& filter);
  // These words of the request are items that were added: those whose `added` is true. `first` is the index
  // of the first word.
  void items(std::size_t first, std::span<const bool> added);
  // The request as it stands.
  void request();
  // The key expires at this time: milliseconds since 1970.
  void deadline(std::int64_t milliseconds);
  // Tells clients that watch the key. Only if there was an effect.
  void end();

 private:
  const Request& request_;
  bool any_ = false;
};

}  // namespace sepal::module
