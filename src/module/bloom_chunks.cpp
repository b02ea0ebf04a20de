// BF.LOADCHUNK puts the filter under its key with the header, and the bits come after it, as in the
// reference: until the last piece is there, the filter denies items that it has. (sepald keeps such a filter
// apart until it is whole.)
#include "module/bloom_chunks.hpp"

#include <sepal/base/arguments.hpp>
#include <sepal/base/hash.hpp>
#include <sepal/base/random.hpp>
#include <sepal/bloom/commands/texts.hpp>
#include <sepal/bloom/filter/dump.hpp>
#include <sepal/bloom/filter/image.hpp>
#include <sepal/bloom/foreign/redisbloom.hpp>
#include <sepal/value/image.hpp>

#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "module/effects.hpp"
#include "module/room.hpp"
#include "module/value_types.hpp"

namespace sepal::module {
namespace {

namespace text = bloom::text;
using bloom::Filter;
using bloom::ImageHeader;

// A number that tells pieces dumped by this process from pieces of another process.
std::uint64_t process() {
  static const std::uint64_t number = hash64(random_hex(32), 0);
  return number;
}

void reply_piece(Reply& reply, std::uint64_t next, std::span<const std::byte> piece) {
  reply.array(2);
  reply.integer_unsigned(next);
  reply.bulk({reinterpret_cast<const char*>(piece.data()), piece.size()});
}

// Nothing if the bytes are no header of a filter.
std::optional<ImageHeader> header_in(std::span<const std::byte> bytes) {
  // A header of Sepal's dump is a piece without data. Pieces with data come with other iterators than 1.
  if (auto piece = bloom::decode_dump_piece(bytes, bloom::filter_layers_max))
    return piece->data.empty() ? std::move(piece->image) : std::nullopt;
  auto header = bloom::decode_redisbloom_header(bytes, bloom::filter_layers_max);
  return header ? std::optional(std::move(*header)) : std::nullopt;
}

// The text of the refusal; empty if there is none.
std::string_view put(RedisModuleCtx* context, Key& key, const ImageHeader& header) {
  // The other server has admitted all of its layers.
  const value::Limits limits{.bytes_max = limits_of_new(context, header.bitmap_bytes()).bytes_max,
                             .layers_max = bloom::filter_layers_max};
  auto made = Filter::restore(header.options, header.layers, limits);
  if (!made)
    return made.error().code == Errc::out_of_range ? text::load_bad_data : text::no_memory_for_filter;
  key.put(std::move(*made));
  return {};
}

// Sets these bits in addition to those that are set. `offset` is in the bitmaps. Clients may have added to
// the filter since its header came: to store the bytes of the piece would lose such adds (decisions/0035).
std::string_view fill(Filter& filter, std::uint64_t offset, std::span<const std::byte> data) {
  if (data.size() > bloom::header_of(filter).bitmap_bytes() - offset) return text::load_too_big;
  // Bits are copied by whole words; RedisBloom's pieces may begin and end within one.
  constexpr std::uint64_t word_bytes = sizeof(std::uint64_t);
  const std::uint64_t begin = offset - offset % word_bytes;
  const std::uint64_t end = (offset + data.size() + word_bytes - 1) / word_bytes * word_bytes;
  std::vector<std::byte> bits(static_cast<std::size_t>(end - begin));
  bloom::copy_bits(filter.layers(), begin, bits);
  const auto changed = std::span(bits).subspan(static_cast<std::size_t>(offset - begin), data.size());
  std::ranges::transform(changed, data, changed.begin(), std::bit_or());
  bloom::fill_bits(filter, begin, bits);
  return {};
}

// No bit of the filter is set: no client has added to it, and no piece of it has come. For small filters.
bool is_blank(const Filter& filter) {
  const auto image = value::image_of(filter);
  return value::all_zero(std::span(image).subspan(bloom::image_bytes(filter.layer_count())));
}

bool same(const ImageHeader& one, const ImageHeader& other) {
  return std::ranges::equal(encode(one), encode(other));
}

// A piece of a dump of Sepal.
std::string_view load_piece(RedisModuleCtx* context, Key& key, const bloom::DumpPiece& piece) {
  if (key.filter() == nullptr) return text::filter_not_found;
  // The source may grow during its dump, so a piece may name more bytes than the header did. A piece
  // that names fewer is of another filter.
  if (piece.total_bytes < bloom::header_of(*key.filter()).bitmap_bytes()) return text::load_bad_data;
  // A piece that is a whole filter has an instant of its own, which may differ from the header's.
  // Clients may already have added to the filter under this key. So only a blank one is replaced.
  const bool is_whole = piece.image && piece.data.size() == piece.total_bytes;
  if (is_whole && !same(*piece.image, bloom::header_of(*key.filter())) && is_blank(*key.filter()))
    if (const std::string_view refusal = put(context, key, *piece.image); !refusal.empty()) return refusal;
  Filter& filter = *key.filter();
  // Read again, because put() may have replaced the filter.
  const std::uint64_t bitmap_bytes = bloom::header_of(filter).bitmap_bytes();
  // The filter has grown during the dump: this piece is of a layer that the header does not name.
  if (piece.offset >= bitmap_bytes) return {};
  // This piece may reach into a layer that the header does not name: that part is left out.
  return fill(filter, piece.offset,
              piece.data.first(static_cast<std::size_t>(
                  std::min<std::uint64_t>(piece.data.size(), bitmap_bytes - piece.offset))));
}

// RedisBloom's data are bits, and nothing else. The iterator is 1 more than the offset behind them.
std::string_view load_bits(const Key& key, std::int64_t iterator, std::span<const std::byte> bits) {
  Filter* const filter = key.filter();
  if (filter == nullptr) return text::filter_not_found;
  if (iterator < 1 || bits.size() > static_cast<std::uint64_t>(iterator) - 1) return text::load_bad_data;
  const std::uint64_t offset = static_cast<std::uint64_t>(iterator) - 1 - bits.size();
  // fill() relies on this: it subtracts the offset from the bytes of all bitmaps.
  if (offset >= bloom::header_of(*filter).bitmap_bytes()) return text::load_no_such_offset;
  // Bits say nothing of the hash. In a filter of Sepal's hash they would be at wrong places.
  if (filter->options().hash != bloom::ItemHash::redisbloom) return text::load_bad_data;
  return fill(*filter, offset, bits);
}

std::string_view load(RedisModuleCtx* context, Key& key, std::int64_t iterator,
                      std::span<const std::byte> bytes) {
  if (iterator == 1) {
    const auto header = header_in(bytes);
    return header ? put(context, key, *header) : text::load_bad_data;
  }
  if (const auto piece = bloom::decode_dump_piece(bytes, bloom::filter_layers_max))
    return load_piece(context, key, *piece);
  return load_bits(key, iterator, bytes);
}

// The text of the refusal; empty if there is none.
std::string_view shape(RedisModuleCtx* context, Key& key, const ImageHeader& header) {
  Filter* const filter = key.filter();
  if (filter == nullptr) return put(context, key, header);
  // The layers that both have must be equal. Otherwise the items that follow would set other bits than on the
  // master.
  const std::uint32_t layer_count = filter->layer_count();
  if (filter->options() != header.options || layer_count > header.layers.size()) return text::load_bad_data;
  for (std::uint32_t i = 0; i < layer_count; ++i)
    if (filter->layer(i).plan() != header.layers[i].plan) return text::load_bad_data;
  for (std::size_t i = layer_count; i < header.layers.size(); ++i)
    if (!filter->append_layer(header.layers[i].plan,
                              limits_of(context, filter->byte_count(), header.layers[i].plan.byte_count())))
      return text::no_memory_for_filter;
  return {};
}

// Answers OK, or the refusal.
void answer(Request& request, Effects& effects, std::string_view refusal) {
  if (!refusal.empty()) return request.reply.error(refusal);
  effects.request();
  effects.end();
  request.reply.ok();
}

}  // namespace

void bf_scan_dump(Request& request) {
  const auto iterator = parse_integer(request.words[2]);
  const Key key(request.context, request.key(), open_to_read);
  if (key.window() != nullptr) return request.reply.error(text::window_has_no_chunks);
  const Filter* const filter = filter_or_refuse(request, key);
  if (filter == nullptr) return;
  if (!iterator) return request.reply.error(text::dump_position);
  if (*iterator == 0) return reply_piece(request.reply, 1, bloom::dump_header(*filter, process()));
  // An iterator is 1 more than an offset, because 0 begins and ends a dump. A client may send any number: one
  // that leads nowhere ends the dump.
  std::optional<bloom::DumpedData> data;
  if (*iterator > 0) data = bloom::dump_data(*filter, static_cast<std::uint64_t>(*iterator) - 1, process());
  if (data) return reply_piece(request.reply, 1 + data->end, data->piece);
  reply_piece(request.reply, 0, {});
}

void bf_load_chunk(Request& request) {
  const auto iterator = parse_integer(request.words[2]);
  if (!iterator) return request.reply.error(text::load_position);
  Effects effects(request);
  std::string_view refusal;
  {
    Key key(request.context, request.key(), open_to_read | open_to_write);
    if (key.window() != nullptr) return request.reply.error(text::window_has_no_chunks);
    refusal = key.is_other()
                  ? text::wrong_type
                  : load(request.context, key, *iterator, std::as_bytes(std::span(request.words[3])));
  }
  answer(request, effects, refusal);
}

void bf_shape(Request& request) {
  const auto header =
      bloom::decode_image_header(std::as_bytes(std::span(request.words[2])), bloom::filter_layers_max);
  if (!header) return request.reply.error(text::load_bad_data);
  Effects effects(request);
  std::string_view refusal;
  {
    Key key(request.context, request.key(), open_to_read | open_to_write);
    refusal = key.is_other() ? text::wrong_type : shape(request.context, key, *header);
  }
  answer(request, effects, refusal);
}

}  // namespace sepal::module
