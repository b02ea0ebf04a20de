#include <sepal/cuckoo/foreign/redis_payload.hpp>
#include <sepal/cuckoo/kind/module_type.hpp>
#include <sepal/cuckoo/kind/redis_kind.hpp>
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

void give_pieces(const value::Value& value, const value::EmitPiece& emit) {
  if (const auto* const of_redis = value::as<RedisFilter>(&value)) return give_chunks(*of_redis, emit);
  value::give_module_payload(value, emit);
}

}  // namespace

const value::ModuleType module_type{.name = redis_type_name,
                                    .encoding_version = sepal_encoding,
                                    .read_foreign = read_foreign,
                                    .give_pieces = give_pieces};

}  // namespace sepal::cuckoo
