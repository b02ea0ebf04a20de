#include <sepal/base/assert.hpp>
#include <sepal/cuckoo/foreign/redis_payload.hpp>
#include <sepal/cuckoo/kind/module_type.hpp>
#include <sepal/cuckoo/kind/redis_kind.hpp>
#include <sepal/value/image.hpp>
#include <sepal/value/module_payload.hpp>

#include <algorithm>
#include <string>
#include <utility>

namespace sepal::cuckoo {
namespace {

static_assert(redis_id == value::module_id(redis_type_name, redis_encoding));

Result<value::ValuePtr> read_foreign(value::RdbFields& fields, int encoding_version,
                                     const value::LimitsOfNew& limits_of) {
  if (encoding_version != redis_encoding)
    return fail(Errc::unsupported_version,
                "a cuckoo filter is of encoding version " + std::to_string(encoding_version) +
                    "; this module reads RedisBloom's version " + std::to_string(redis_encoding) +
                    " and its own, " + std::to_string(sepal_encoding));
  auto filter = RedisFilter::of(read_redis_table(fields, limits_of));
  if (!filter) return filter.error();
  return value::ValuePtr(std::move(*filter));
}

// As RedisBloom does, so its servers can load such an AOF.
void give_chunks(const RedisFilter& filter, const value::EmitPiece& emit) {
  constexpr const char* command = "CF.LOADCHUNK";
  const RedisHeader& header = filter.header();
  emit(command, 1, encode_redis_header(header));
  for (std::int64_t iterator = 1;;) {
    const auto piece = redis_piece_at(header, iterator);
    if (!piece) return;
    const std::uint64_t byte_count = std::min(piece->byte_count, value::module_piece_bytes);
    iterator += static_cast<std::int64_t>(byte_count);
    emit(command, static_cast<std::uint64_t>(iterator),
         filter.table().slots(piece->layer).subspan(piece->offset, byte_count));
  }
}

// The AOF gets a filter of Sepal's own as its payload: a filter of which a part is missing can answer
// nothing. It is one string, so there is a second copy of the filter for a while.
void give_payload(const value::Value& filter, const value::EmitPiece& emit) {
  constexpr std::uint64_t no_deadline = 0;
  const value::KindRow& row = value::row_of(filter);
  std::vector<std::uint64_t> numbers;
  const auto still = row.freeze(filter, numbers);
  const value::FrozenView frozen{.value = filter, .numbers = numbers, .still = still.get()};
  std::string whole;
  whole.reserve(value::module_payload_bytes(frozen));
  auto pieces = value::module_payload_of(frozen, {});
  SEPAL_ASSERT(pieces, "a payload is given up, and nothing has asked for that");
  for (std::string& piece : *pieces) {
    whole += piece;
    // Freed at once, so that the pieces shrink while the copy grows.
    std::string().swap(piece);
  }
  emit("RESTORE", no_deadline, std::as_bytes(std::span(whole)));
}

void give_pieces(const value::Value& value, const value::EmitPiece& emit) {
  if (const auto* const of_redis = value::as<RedisFilter>(&value)) return give_chunks(*of_redis, emit);
  give_payload(value, emit);
}

}  // namespace

const value::ModuleType module_type{.name = redis_type_name,
                                    .encoding_version = sepal_encoding,
                                    .read_foreign = read_foreign,
                                    .give_pieces = give_pieces};

}  // namespace sepal::cuckoo
