#include "module/cuckoo_chunks.hpp"

#include <sepal/base/arguments.hpp>
#include <sepal/bloom/commands/texts.hpp>
#include <sepal/cuckoo/commands/found.hpp>
#include <sepal/cuckoo/commands/options.hpp>
#include <sepal/cuckoo/foreign/redis_header.hpp>

#include <algorithm>
#include <optional>
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

// RedisBloom's pieces have up to 16 MiB; it takes shorter ones.
constexpr std::uint64_t piece_bytes_max = std::uint64_t{1} << 20;

void reply_piece(Reply& reply, std::int64_t iterator, std::span<const std::byte> bytes) {
  reply.array(2);
  reply.integer(iterator);
  reply.bulk({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

void reply_end(Reply& reply) {
  reply.array(2);
  reply.integer(0);
  reply.null();
}

// The text of the refusal; empty if there is none. So for the functions below.
std::string_view load_header(RedisModuleCtx* context, Key& key, std::span<const std::byte> bytes) {
  if (!key.is_free()) return bloom::text::filter_exists;
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

std::string_view load_chunk(const Key& key, std::int64_t iterator, std::span<const std::byte> bytes) {
  if (key.is_free()) return text::not_found;
  RedisFilter* const filter = Found(key.value()).of_redis;
  const auto place =
      filter == nullptr ? std::nullopt : cuckoo::redis_place_of(filter->header(), iterator, bytes.size());
  if (!place) return text::bad_chunk;
  filter->changing().write(*place, bytes);
  return {};
}

std::string_view make_shape(RedisModuleCtx* context, Key& key, std::span<const std::byte> bytes) {
  if (!key.is_free()) return bloom::text::filter_exists;
  const auto plan = cuckoo::decode_plan(bytes);
  if (!plan) return bloom::text::load_bad_data;
  if (plan->byte_count() > limits_of_new(context, plan->byte_count()).bytes_max)
    return bloom::text::no_memory_for_filter;
  auto made = cuckoo::Filter::create(*plan);
  if (!made) return bloom::text::no_memory_for_filter;
  key.put(std::move(*made));
  return {};
}

// Opens the key, changes it by change(key), and answers OK or the refusal.
template <class Change>
void change_key(Request& request, const Change& change) {
  Effects effects(request);
  {
    Key key(request.context, request.key(), open_to_read | open_to_write);
    if (refuses_other_than_cuckoo(request, key)) return;
    if (const std::string_view refusal = change(key); !refusal.empty()) return request.reply.error(refusal);
    effects.request();
  }
  effects.end();
  request.reply.ok();
}

}  // namespace

void cf_scan_dump(Request& request) {
  const auto iterator = parse_integer(request.words[2]);
  if (!iterator || *iterator < 0) return request.reply.error(text::position);
  const Key key(request.context, request.key(), open_to_read);
  if (refuses_no_cuckoo(request, key)) return;
  const RedisFilter* const filter = Found(key.value()).of_redis;
  if (filter == nullptr) return request.reply.error(text::own_filter);
  const cuckoo::RedisHeader& header = filter->header();
  if (header.item_count == 0) return reply_end(request.reply);
  if (*iterator == 0) return reply_piece(request.reply, 1, cuckoo::encode_redis_header(header));
  const auto piece = cuckoo::redis_piece_at(header, *iterator);
  if (!piece) return reply_end(request.reply);
  const std::uint64_t byte_count = std::min(piece->byte_count, piece_bytes_max);
  reply_piece(request.reply, *iterator + static_cast<std::int64_t>(byte_count),
              filter->table().slots(piece->layer).subspan(piece->offset, byte_count));
}

void cf_load_chunk(Request& request) {
  const auto iterator = parse_integer(request.words[2]);
  if (!iterator || *iterator == 0) return request.reply.error(text::position);
  const auto bytes = std::as_bytes(std::span(request.words[3]));
  change_key(request, [&](Key& key) {
    return *iterator == 1 ? load_header(request.context, key, bytes) : load_chunk(key, *iterator, bytes);
  });
}

void cf_shape(Request& request) {
  const auto bytes = std::as_bytes(std::span(request.words[2]));
  change_key(request, [&](Key& key) { return make_shape(request.context, key, bytes); });
}

}  // namespace sepal::module::cf
