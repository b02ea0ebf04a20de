#include <sepal/command/table/error_texts.hpp>

#include "support/catch.hpp"

namespace error_texts_test {

using namespace sepal::command;  // NOLINT(google-build-using-namespace): a test of one table
using sepal::Errc;

TEST_CASE("texts that clients match on stay as they are, byte for byte") {
  CHECK(wrong_arity("bf.add") == "ERR wrong number of arguments for 'bf.add' command");
  CHECK(text_of(Errc::key_exists) == "ERR item exists");
  CHECK(text_of(Errc::no_such_key) == "ERR no such key");
  CHECK(text_of(Errc::filter_full) == "ERR non scaling filter is full");
  CHECK(text_of(Errc::layer_limit) == "ERR the filter has more layers than layers_max allows");
  CHECK(text_of(Errc::out_of_range) == "ERR could not create filter");
  for (const Errc code : {Errc::too_large, Errc::memory_limit, Errc::out_of_memory})
    CHECK(text_of(code) == "ERR Insufficient memory to create filter");
  CHECK(text_of(Errc::key_too_long) == "ERR the key is longer than 65536 bytes");
  CHECK(text::filter_not_found == "ERR not found");
  CHECK(text::over_memory == "OOM command not allowed when used memory > 'maxmemory'.");
  CHECK(text::no_authentication == "NOAUTH Authentication required.");
  CHECK(text::no_protocol == "NOPROTO unsupported protocol version");
}

TEST_CASE("every error code has one line of text, which begins with a word in capitals") {
  for (int code = 0; code <= static_cast<int>(Errc::invalid_setting); ++code) {
    const std::string_view text = text_of(static_cast<Errc>(code));
    CHECK((text.starts_with("ERR ") || text.starts_with("MISCONF ")));
    CHECK(text != "ERR unknown failure");
    CHECK(text.find_first_of("\r\n") == std::string_view::npos);
  }
}

}  // namespace error_texts_test
