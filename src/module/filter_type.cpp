// filter/rdb.hpp describes what filters are in an RDB file and in a dump, of both encoding versions.
#include "module/filter_type.hpp"

#include <sepal/bloom/filter/dump.hpp>
#include <sepal/bloom/filter/frozen.hpp>
#include <sepal/bloom/filter/image.hpp>
#include <sepal/bloom/foreign/rdb.hpp>
#include <sepal/bloom/foreign/redisbloom.hpp>

#include <algorithm>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "module/room.hpp"

namespace sepal::module {
namespace {

using bloom::Filter;
using bloom::FilterPtr;

constexpr const char* type_name = "MBbloom--";
constexpr std::uint64_t piece_bytes = bloom::rdb_piece_bytes;
// The server frees a value in its background thread if the effort is above 64.
constexpr std::uint64_t bytes_of_one_effort = std::uint64_t{64} << 10;

RedisModuleType* type = nullptr;

const Filter& filter_of(const void* value) {
  return *static_cast<const Filter*>(value);
}

std::span<const char> chars(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Calls step(offset, count) for all bytes of bitmaps of this length, until it returns false.
template <class Step>
bool in_pieces(std::uint64_t bitmap_bytes, const Step& step) {
  for (std::uint64_t offset = 0; offset < bitmap_bytes; offset += piece_bytes)
    if (!step(offset, static_cast<std::size_t>(std::min(piece_bytes, bitmap_bytes - offset)))) return false;
  return true;
}

// --- reading ----------------------------------------------------------------------------------------------

// A string that the server read. Its owner is this module.
class Loaded {
 public:
  explicit Loaded(RedisModuleIO* io) : text_(api.LoadStringBuffer(io, &length_)) {}
  ~Loaded() {
    if (text_ != nullptr) api.Free(text_);
  }
  Loaded(const Loaded&) = delete;
  Loaded& operator=(const Loaded&) = delete;

  [[nodiscard]] bool is_there() const { return text_ != nullptr; }
  [[nodiscard]] std::span<const std::byte> bytes() const {
    return std::as_bytes(std::span<const char>(text_, length_));
  }

 private:
  std::size_t length_ = 0;
  char* text_;
};

Error cut_short() {
  return fail(Errc::damaged, "the data of a filter is cut short");
}

Result<FilterPtr> load_own(RedisModuleIO* io) {
  const Loaded head(io);
  if (!head.is_there() || api.IsIOError(io) != 0) return cut_short();
  // The header is checked before it sizes an allocation: RESTORE takes bytes from any client.
  const auto header = bloom::decode_value_header(head.bytes(), no_limits.layers_max);
  if (!header) return header.error();
  auto made = Filter::restore(header->options, header->layers,
                              limits_of_new(api.GetContextFromIO(io), header->bitmap_bytes()));
  if (!made) return made;
  std::optional<Error> error;
  in_pieces(header->bitmap_bytes(), [&](std::uint64_t offset, std::size_t count) {
    // An empty string stands for a piece in which no bit is set (save_all). The new bitmap is zero there.
    const Loaded piece(io);
    if (!piece.is_there() || api.IsIOError(io) != 0) {
      error = cut_short();
    } else if (piece.bytes().size() == count) {
      fill_bits(**made, offset, piece.bytes());
    } else if (!piece.bytes().empty()) {
      error = fail(Errc::damaged, "a piece of a bitmap is of another length");
    }
    return !error;
  });
  if (error) return *error;
  return made;
}

// The bits of a layer are one string in RedisBloom's files, so there is a second copy of them for a while.
Result<FilterPtr> load_redisbloom(RedisModuleIO* io) {
  bloom::RedisBloomFilter found;
  found.item_count = api.LoadUnsigned(io);
  const std::uint64_t layer_count = api.LoadUnsigned(io);
  found.options = api.LoadUnsigned(io);
  found.expansion = api.LoadUnsigned(io);
  if (api.IsIOError(io) != 0) return cut_short();
  if (layer_count > no_limits.layers_max) return bloom::too_many_layers(no_limits.layers_max);
  std::vector<std::unique_ptr<Loaded>> bits;
  // The strings are kept until all layers are known: the filter is made in one step, with all of its layers.
  for (std::uint64_t i = 0; i < layer_count; ++i) {
    bloom::RedisBloomLayer& layer = found.layers.emplace_back();
    layer.capacity = api.LoadUnsigned(io);
    layer.error_rate = api.LoadDouble(io);
    layer.probe_count = api.LoadUnsigned(io);
    layer.bits_per_item = api.LoadDouble(io);
    layer.bit_count = api.LoadUnsigned(io);
    layer.size_exponent = api.LoadUnsigned(io);
    if (api.IsIOError(io) != 0) return cut_short();
    bits.push_back(std::make_unique<Loaded>(io));
    if (!bits.back()->is_there() || api.IsIOError(io) != 0) return cut_short();
    layer.byte_count = bits.back()->bytes().size();
    layer.item_count = api.LoadUnsigned(io);
  }
  if (api.IsIOError(io) != 0) return cut_short();
  const auto header = bloom::image_of(found);
  if (!header) return header.error();
  auto made = Filter::restore(header->options, header->layers,
                              limits_of_new(api.GetContextFromIO(io), header->bitmap_bytes()));
  if (!made) return made;
  for (std::uint32_t i = 0; i < bits.size(); ++i) {
    (*made)->fill_bits(i, 0, bits[i]->bytes());
    // Freed at once, so that the second copy shrinks while the filter fills.
    bits[i].reset();
  }
  return made;
}

Result<FilterPtr> load_encoded(RedisModuleIO* io, int encoding_version) {
  if (encoding_version == bloom::sepal_encoding) return load_own(io);
  if (encoding_version == bloom::redisbloom_encoding) return load_redisbloom(io);
  return fail(Errc::unsupported_version, "a filter is of encoding version " +
                                             std::to_string(encoding_version) +
                                             "; this module reads RedisBloom's version 4 and its own, 512");
}

void* load(RedisModuleIO* io, int encoding_version) {
  try {
    auto made = load_encoded(io, encoding_version);
    // The server owns the reference from here on, and gives it back in free_value().
    if (made) return (*made).detach();
    api.LogIOError(io, "warning", "sepal: %s", made.error().detail.c_str());
  } catch (const std::exception& failure) {
    api.LogIOError(io, "warning", "sepal: a filter cannot be read: %s", failure.what());
  }
  return nullptr;
}

// --- writing ----------------------------------------------------------------------------------------------

// Calls take(bytes) for the image header, and then for the bitmaps, piece after piece.
template <class Take>
void give_image(const Filter& filter, const Take& take) {
  const bloom::ImageHeader header = bloom::header_of(filter);
  const std::vector<bloom::LayerView> layers = filter.layers();
  take(std::span<const std::byte>(encode(header)));
  // One buffer of a piece serves all pieces, so a save takes no second copy of the filter.
  std::vector<std::byte> piece(static_cast<std::size_t>(std::min(piece_bytes, header.bitmap_bytes())));
  in_pieces(header.bitmap_bytes(), [&](std::uint64_t offset, std::size_t count) {
    const auto part = std::span(piece).first(count);
    copy_bits(layers, offset, part);
    take(std::span<const std::byte>(part));
    return true;
  });
}

void save_all(RedisModuleIO* io, const Filter& saved) {
  give_image(saved, [&](std::span<const std::byte> bytes) {
    api.SaveStringBuffer(io, chars(bytes).data(), bloom::all_zero(bytes) ? 0 : bytes.size());
  });
}

// A save function has no result, so the server does not learn of an error here. Data that is cut short is
// refused when it is read.
void save(RedisModuleIO* io, void* value) {
  try {
    save_all(io, filter_of(value));
  } catch (const std::exception& failure) {
    api.LogIOError(io, "warning", "sepal: a filter cannot be saved: %s", failure.what());
  }
}

// The AOF gets the pieces that BF.SCANDUMP answers, as requests of BF.LOADCHUNK.
void rewrite_all(RedisModuleIO* io, RedisModuleString* key, const Filter& saved) {
  // The AOF has the pieces of one filter in their order, so nothing has to tell them from those of another
  // process.
  constexpr std::uint64_t no_process = 0;
  const auto emit = [&](std::uint64_t iterator, std::span<const std::byte> bytes) {
    api.EmitAOF(io, "BF.LOADCHUNK", "slb", key, static_cast<long long>(iterator), chars(bytes).data(),
                bytes.size());
  };
  emit(1, bloom::dump_header(saved, no_process));
  for (std::uint64_t offset = 0;;) {
    const auto data = bloom::dump_data(saved, offset, no_process);
    if (!data) return;
    emit(1 + data->end, data->piece);
    offset = data->end;
  }
}

void rewrite(RedisModuleIO* io, RedisModuleString* key, void* value) {
  try {
    rewrite_all(io, key, filter_of(value));
  } catch (const std::exception& failure) {
    api.LogIOError(io, "warning", "sepal: a filter cannot be written to the AOF: %s", failure.what());
  }
}

// --- the rest ---------------------------------------------------------------------------------------------

std::size_t memory_usage(const void* value) {
  return filter_of(value).byte_count();
}

void free_value(void* value) {
  // Takes over the server's reference, and drops it. The server may call this in its background thread.
  const FilterPtr last(static_cast<Filter*>(value), false);
}

std::size_t free_effort(RedisModuleString* /*key*/, const void* value) {
  return static_cast<std::size_t>(filter_of(value).byte_count() / bytes_of_one_effort) + 1;
}

void* copy(RedisModuleString* /*from*/, RedisModuleString* /*to*/, const void* value) {
  try {
    // This FilterPtr adds a reference of its own, so the server keeps the one of `value`.
    const bloom::Frozen frozen(FilterPtr(const_cast<Filter*>(static_cast<const Filter*>(value))));
    auto made = frozen.copy(no_limits, {});
    if (made) return (*made).detach();
  } catch (const std::exception&) {
    // The server answers that it could not copy the value.
  }
  return nullptr;
}

// DEBUG DIGEST-VALUE answers it: equal for filters of the same shape, counts and bits.
void digest(RedisModuleDigest* into, void* value) {
  try {
    give_image(filter_of(value), [&](std::span<const std::byte> bytes) {
      api.DigestAddStringBuffer(into, chars(bytes).data(), bytes.size());
    });
    api.DigestEndSequence(into);
  } catch (const std::exception&) {
    // The server does not learn of an error here, either. The digest then equals that of no other server.
  }
}

}  // namespace

bool create_filter_type(RedisModuleCtx* context) {
  TypeMethods methods;
  methods.rdb_load = load;
  methods.rdb_save = save;
  methods.aof_rewrite = rewrite;
  methods.mem_usage = memory_usage;
  methods.digest = digest;
  methods.free = free_value;
  methods.free_effort = free_effort;
  methods.copy = copy;
  type = api.CreateDataType(context, type_name, bloom::sepal_encoding, &methods);
  return type != nullptr;
}

RedisModuleType* filter_type() {
  return type;
}

}  // namespace sepal::module
