// What replicas and the AOF are told of a change: its effect, and not the request.
//
// They are told the shape of a Bloom filter that is created or grows (BF.SHAPE), the plan of a cuckoo filter
// that is created (CF.SHAPE), and the items that were new or taken, and no others. So a server of another
// version or with other settings, which would plan other layers, makes the same filter, and an add of known
// items tells them nothing. How the cells of a cuckoo filter grow follows from its items.
//
// About a filter that forgets they are told the records that sepald has in its journal: its first layer and
// each further one (BF.WINDOWSHAPE), and what was added in which generation (BF.WINDOWADD). So no clock of
// theirs has a part in it.
#pragma once

#include <sepal/bloom/filter/filter.hpp>
#include <sepal/bloom/window/window_filter.hpp>
#include <sepal/cuckoo/native/plan.hpp>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "module/request.hpp"

namespace sepal::module {

// Confined to one request, of which it tells the changes in their order. A change that has been made must be
// told. So without memory to tell it the server ends, as it does when it has no memory itself; only what
// grows with the request is allocated before the change.
class Effects {
 public:
  explicit Effects(const Request& request) : request_(request) {}

  // Called before the first of so many items changes a filter. Throws bad_alloc.
  void reserve_items(std::size_t count) {
    if (count > few_items) items_.resize(count);
  }

  // The filter was created, or has a new layer.
  void shape(const bloom::Filter& filter) noexcept;
  // A cuckoo filter of this plan was created.
  void shape(const cuckoo::Plan& plan) noexcept;
  // A filter that forgets was created.
  void shape(const bloom::WindowFilter& filter) noexcept;
  // It gets this layer, in this generation.
  void layer(std::uint64_t generation, const bloom::LanePlan& plan) noexcept;
  // Its entries of what was added; there may be none.
  void entries(std::span<const Fingerprint> added) noexcept;
  // These words of the request are items that changed the filter: those whose `changed` is true. `first` is
  // the index of the first word. Adds to a Bloom filter, and adds to and removals from a cuckoo filter.
  void items(std::size_t first, std::span<const bool> changed) noexcept;
  void copies(std::size_t first, std::span<const bool> changed) noexcept;
  void removals(std::size_t first, std::span<const bool> changed) noexcept;
  // The request as it stands.
  void request() noexcept;
  // The key expires at this time: milliseconds since 1970.
  void deadline(std::int64_t milliseconds) noexcept;
  // Tells clients that watch the key. Only if there was an effect.
  void end() noexcept;

 private:
  static constexpr std::size_t few_items = 64;  // place_ is enough for them

  // Tells the request as it stands if that is its own effect. `names` are the commands of which it can be.
  [[nodiscard]] bool told_whole(std::size_t first, std::span<const bool> changed,
                                std::initializer_list<std::string_view> names) noexcept;
  [[nodiscard]] std::span<RedisModuleString*> changed_words(std::size_t first,
                                                            std::span<const bool> changed) noexcept;

  const Request& request_;
  std::array<RedisModuleString*, few_items> place_;  // of changed_words()
  std::vector<RedisModuleString*> items_;            // of changed_words() as well
  bool any_ = false;
};

}  // namespace sepal::module
