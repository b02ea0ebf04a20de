#include "module/cuckoo_chunks.hpp"

#include <sepal/base/arguments.hpp>
#include <sepal/bloom/commands/texts.hpp>
#include <sepal/cuckoo/commands/chunks.hpp>
#include <sepal/cuckoo/commands/found.hpp>
#include <sepal/cuckoo/commands/options.hpp>
#include <sepal/cuckoo/foreign/redis_header.hpp>

#include <utility>

#include "module/cuckoo_key.hpp"
#include "module/effects.hpp"
#include "module/room.hpp"
#include "module/value_types.hpp"

namespace sepal::module::cf {
namespace {

namespace text = cuckoo::text;
using cuckoo::Found;
using cuckoo::RedisFilter;
using cuckoo::RedisTable;

// The text of the refusal; empty if there is none. So for the functions below.
std::string_view put(RedisModuleCtx* context, Key& key, const cuckoo::Plan& plan) {
  if (plan.byte_count() > limits_of_new(context, plan.byte_count()).bytes_max)
    return bloom::text::no_memory_for_filter;
  auto made = cuckoo::Filter::create(plan);
  if (!made) return bloom::text::no_memory_for_filter;
  key.put(std::move(*made));
  return {};
}

std::string_view load_header(RedisModuleCtx* context, Key& key, std::span<const std::byte> bytes) {
  if (!key.is_free()) return bloom::text::filter_exists;
  if (cuckoo::begins_header_piece(bytes)) {
    const auto plan = cuckoo::decode_header_piece(bytes);
    return plan ? put(context, key, *plan) : text::bad_header;
  }
  const auto header = cuckoo::decode_redis_header(bytes);
  if (!header) return header.error().code == Errc::damaged ? text::bad_header : text::no_such_filter;
  // The other server has admitted all of its layers.
  const value::Limits limits{.bytes_max = limits_of_new(context, header->slot_count()).bytes_max,
                             .layers_max = cuckoo::redis_layers_max};
  auto made = RedisFilter::of(RedisTable::make(*header, limits));
  if (!made) {
    const bool absurd = made.error().code == Errc::out_of_range || made.error().code == Errc::layer_limit;
    return absurd ? text::no_such_filter : bloom::text::no_memory_for_filter;
  }
  key.put(std::move(*made));
  return {};
}

// All steps at once: the server runs one command at a time. What was added before a refusal is an effect.
std::string_view load_cells(RedisModuleCtx* context, cuckoo::Filter& filter, std::span<const std::byte> bytes,
                            Effects& effects) {
  cuckoo::PieceLoad load(filter);
  ServerMemory memory(context);
  auto outcome = load.read(bytes);
  while (outcome == cuckoo::PieceOutcome::more) outcome = filter.load_some(load, memory, nullptr);
  const std::string_view refusal = cuckoo::refusal_of(outcome);
  if (!refusal.empty() && load.added_count() != 0) effects.request();
  return refusal;
}

std::string_view load_chunk(Request& request, const Key& key, std::int64_t iterator,
                            std::span<const std::byte> bytes, Effects& effects) {
  if (key.is_free()) return text::not_found;
  const Found found(key.value());
  if (found.own != nullptr) return load_cells(request.context, *found.own, bytes, effects);
  const auto place = cuckoo::redis_place_of(found.of_redis->header(), iterator, bytes.size());
  if (!place) return text::bad_chunk;
  found.of_redis->changing().write(*place, bytes);
  return {};
}

std::string_view make_shape(RedisModuleCtx* context, Key& key, std::span<const std::byte> bytes) {
  if (!key.is_free()) return bloom::text::filter_exists;
  const auto plan = cuckoo::decode_plan(bytes);
  return plan ? put(context, key, *plan) : bloom::text::load_bad_data;
}

// Opens the key, changes it by change(key, effects), and answers OK or the refusal.
template <class Change>
void change_key(Request& request, const Change& change) {
  Effects effects(request);
  std::string_view refusal;
  {
    Key key(request.context, request.key(), open_to_read | open_to_write);
    if (refuses_other_than_cuckoo(request, key)) return;
    refusal = change(key, effects);
    if (refusal.empty()) effects.request();
  }
  effects.end();
  if (!refusal.empty()) return request.reply.error(refusal);
  request.reply.ok();
}

}  // namespace

void cf_scan_dump(Request& request) {
  const auto iterator = parse_integer(request.words[2]);
  if (!iterator || *iterator < 0) return request.reply.error(text::position);
  const Key key(request.context, request.key(), open_to_read);
  if (refuses_no_cuckoo(request, key)) return;
  cuckoo::append_piece(request.reply, cuckoo::scanned_piece(Found(key.value()), *iterator));
}

void cf_load_chunk(Request& request) {
  const auto iterator = parse_integer(request.words[2]);
  if (!iterator || *iterator == 0) return request.reply.error(text::position);
  const auto bytes = std::as_bytes(std::span(request.words[3]));
  change_key(request, [&](Key& key, Effects& effects) {
    return *iterator == 1 ? load_header(request.context, key, bytes)
                          : load_chunk(request, key, *iterator, bytes, effects);
  });
}

void cf_shape(Request& request) {
  const auto bytes = std::as_bytes(std::span(request.words[2]));
  change_key(request,
             [&](Key& key, const Effects& /*effects*/) { return make_shape(request.context, key, bytes); });
}

}  // namespace sepal::module::cf
