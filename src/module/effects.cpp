#include "module/effects.hpp"

#include <sepal/base/arguments.hpp>
#include <sepal/base/fields.hpp>
#include <sepal/bloom/filter/image.hpp>
#include <sepal/bloom/kind/window_kind.hpp>
#include <sepal/cuckoo/kind/kind.hpp>

#include <algorithm>

namespace sepal::module {
namespace {

const char* text_of(std::span<const std::byte> bytes) {
  return reinterpret_cast<const char*>(bytes.data());
}

}  // namespace

void Effects::shape(const bloom::Filter& filter) noexcept {
  bloom::ImageHeader header = bloom::header_of(filter);
  // A shape is told without items: the adds are told by themselves, and a replica counts them as it adds.
  for (bloom::Filter::LayerState& layer : header.layers) layer.item_count = 0;
  const std::vector<std::byte> bytes = bloom::encode(header);
  api.Replicate(request_.context, "BF.SHAPE", "sb", request_.key(), text_of(bytes), bytes.size());
  any_ = true;
}

void Effects::shape(const cuckoo::Plan& plan) noexcept {
  const auto bytes = cuckoo::made_record(plan);
  api.Replicate(request_.context, "CF.SHAPE", "sb", request_.key(), text_of(bytes), bytes.size());
  any_ = true;
}

void Effects::shape(const bloom::WindowFilter& filter) noexcept {
  const auto bytes = bloom::made_record(filter);
  api.Replicate(request_.context, "BF.WINDOWSHAPE", "sb", request_.key(), text_of(bytes), bytes.size());
  any_ = true;
}

void Effects::layer(std::uint64_t generation, const bloom::LanePlan& plan) noexcept {
  const auto bytes = bloom::grown_record(generation, plan);
  api.Replicate(request_.context, "BF.WINDOWSHAPE", "sb", request_.key(), text_of(bytes), bytes.size());
  any_ = true;
}

void Effects::entries(std::span<const Fingerprint> added) noexcept {
  // A word of a request has at most 512 MB.
  constexpr std::size_t told_together_max = std::size_t{1} << 20;
  while (!added.empty()) {
    const auto some = added.first(std::min(added.size(), told_together_max));
    std::vector<std::byte> bytes(some.size_bytes());
    FieldWriter writer(bytes);
    for (const Fingerprint& entry : some) {
      writer.integer(entry.low);
      writer.integer(entry.high);
    }
    api.Replicate(request_.context, "BF.WINDOWADD", "sb", request_.key(), text_of(bytes), bytes.size());
    any_ = true;
    added = added.subspan(some.size());
  }
}

void Effects::items(std::size_t first, std::span<const bool> changed) noexcept {
  if (told_whole(first, changed, {"BF.ADD", "BF.MADD"})) return;
  const auto told = changed_words(first, changed);
  if (told.empty()) return;
  api.Replicate(request_.context, "BF.MADD", "sv", request_.key(), told.data(), told.size());
  any_ = true;
}

void Effects::copies(std::size_t first, std::span<const bool> changed) noexcept {
  if (told_whole(first, changed, {"CF.ADD"})) return;
  const auto told = changed_words(first, changed);
  if (told.empty()) return;
  api.Replicate(request_.context, "CF.INSERT", "sccv", request_.key(), "NOCREATE", "ITEMS", told.data(),
                told.size());
  any_ = true;
}

void Effects::removals(std::size_t first, std::span<const bool> changed) noexcept {
  if (told_whole(first, changed, {"CF.DEL", "CF.MDEL"})) return;
  const auto told = changed_words(first, changed);
  if (told.empty()) return;
  api.Replicate(request_.context, "CF.MDEL", "sv", request_.key(), told.data(), told.size());
  any_ = true;
}

// All of its items changed the filter, and the filter was there and has no new layer that was told.
bool Effects::told_whole(std::size_t first, std::span<const bool> changed,
                         std::initializer_list<std::string_view> names) noexcept {
  const bool is_whole = !any_ && first == 2 && first + changed.size() == request_.arguments.size() &&
                        std::ranges::find(changed, false) == changed.end() &&
                        std::ranges::any_of(names, [&](std::string_view name) {
                          return equal_ignoring_case(request_.words[0], name);
                        });
  if (is_whole) request();
  return is_whole;
}

std::span<RedisModuleString*> Effects::changed_words(std::size_t first,
                                                     std::span<const bool> changed) noexcept {
  const std::span<RedisModuleString*> words = request_.arguments.subspan(first, changed.size());
  const std::span<RedisModuleString*> into = words.size() > few_items ? std::span(items_) : std::span(place_);
  std::size_t count = 0;
  for (std::size_t i = 0; i < words.size(); ++i)
    if (changed[i]) into[count++] = words[i];
  return into.first(count);
}

void Effects::request() noexcept {
  api.ReplicateVerbatim(request_.context);
  any_ = true;
}

void Effects::deadline(std::int64_t milliseconds) noexcept {
  api.Replicate(request_.context, "PEXPIREAT", "sl", request_.key(), static_cast<long long>(milliseconds));
  any_ = true;
}

void Effects::end() noexcept {
  // A request without an effect must not end a transaction of a client that watches the key.
  if (any_) api.SignalModifiedKey(request_.context, request_.key());
}

}  // namespace sepal::module
