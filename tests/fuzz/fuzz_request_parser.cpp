// Any bytes, cut anywhere, give the same requests, the same error and the same rest as the uncut bytes. It
// does not matter whether neighbours are taken one by one or together.
//
//   byte 0      bit 0: authenticated; bit 1: small limits; bit 2: byte by byte
//   byte 1      seed of the cuts
//   the rest    the stream
#include <sepal/resp/request_parser.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "../support/request_stream.hpp"
#include "fuzz_target.hpp"

namespace sepal::fuzz_request_parser_test {

using test::Neighbours;

SEPAL_FUZZ_TARGET(fuzz_request_parser) {
  constexpr std::size_t header_bytes = 2;
  // Each piece copies the unread bytes, so time grows with the square of an unfinished request.
  constexpr std::size_t stream_bytes_max = 8192;
  if (size < header_bytes || size > header_bytes + stream_bytes_max) return 0;
  const bool authenticated = (data[0] & 1) != 0;
  const bool bytewise = (data[0] & 4) != 0;
  sepal::resp::ParserLimits limits;
  if ((data[0] & 2) != 0) {
    limits = {.bulk_bytes_max = 64, .request_bytes_max = 128, .argument_count_max = 8, .line_bytes_max = 48};
  }
  std::uint32_t state = data[1];
  const std::string_view stream(reinterpret_cast<const char*>(data) + header_bytes, size - header_bytes);

  const auto whole = sepal::test::parse_whole(stream, limits, authenticated);
  const auto piece_bytes = [&]() -> std::size_t {
    if (bytewise) return 1;
    state = state * 1664525 + 1013904223;  // the generator of Numerical Recipes
    return 1 + (state >> 28);
  };
  const auto all = [&] { return stream.size(); };
  const auto cut = sepal::test::parse_stream(stream, limits, authenticated, piece_bytes);
  const auto together = sepal::test::parse_stream(stream, limits, authenticated, all, Neighbours::together);
  if (!(whole == cut) || !(whole == together) || !whole.contract_kept) std::abort();
  return 0;
}

}  // namespace sepal::fuzz_request_parser_test
