// Builds what DUMP of Redis answers for a filter of RedisBloom. Also has recorded answers, byte for byte.
#pragma once

#include <sepal/bloom/foreign/rdb.hpp>
#include <sepal/bloom/foreign/redisbloom.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "support/rdb_text.hpp"

namespace sepal::test {

// Each filter has "a", "b" and "c", and not "zz".
struct RecordedRdbDump {
  std::string_view name;
  std::uint64_t item_count = 0;
  std::size_t layer_count = 1;
  std::string bytes;
};

inline const std::vector<RecordedRdbDump>& recorded_rdb_dumps() {
  static const std::vector<RecordedRdbDump> dumps{
      {.name = "small",
       .item_count = 3,
       .layer_count = 1,
       .bytes =
           unhex("07813016e5a289bef8040203020102050202020a047b14ae47e17a743f020804e9862fb2350e26400240800200"
                 "05101204000a005001202840208410c209010203000c00c715fdd011c49ffa")},
      {.name = "nonscaling",
       .item_count = 3,
       .layer_count = 1,
       .bytes =
           unhex("07813016e5a289bef80402030201020d02020203047b14ae47e17a843f02070488168ac58c2b23400240400200"
                 "05083044208e10d209200203000c00caf9ed13bcc61fdd")},
      {.name = "layers",
       .item_count = 16,
       .layer_count = 2,
       .bytes =
           unhex("07813016e5a289bef80402100202020502020208042d431cebe2360a3f020f04b9cedc3be19c34400240c00200"
                 "05183281cacd4c3929aafb5ce5d2c0f215953c4dc1899dd59d3102080210042d431cebe236fa3e021004e9862f"
                 "b2350e364002418002000530210a0883422f2b9a62408830313aa40a9401006b0300914020bc3228090188780a"
                 "2f5388000c20a911186208a21810280208000c0031525f82c90a00aa")},
  };
  return dumps;
}

struct RdbTextOptions {
  std::uint64_t module_id = 0x3016e5a289bef804;
  int length_bytes_min = 1;
  std::uint16_t rdb_version = 12;
  // Writes the bits of a layer. If empty, they are written unchanged.
  std::function<void(RdbText&, std::string_view)> write_bits;
};

// `bits` are those of the filter's layers.
inline std::string rdb_dump(const bloom::RedisBloomFilter& filter, const std::vector<std::string>& bits,
                            const RdbTextOptions& options = {}) {
  RdbText text(options.length_bytes_min);
  text.bytes = "\x07";
  text.length(options.module_id);
  text.number(filter.item_count);
  text.number(filter.layers.size());
  text.number(filter.options);
  text.number(filter.expansion);
  for (std::size_t i = 0; i < filter.layers.size(); ++i) {
    const bloom::RedisBloomLayer& layer = filter.layers[i];
    text.number(layer.capacity);
    text.real(layer.error_rate);
    text.number(layer.probe_count);
    text.real(layer.bits_per_item);
    text.number(layer.bit_count);
    text.number(layer.size_exponent);
    if (options.write_bits) {
      options.write_bits(text, bits[i]);
    } else {
      text.string(bits[i]);
    }
    text.number(layer.item_count);
  }
  text.length(0);
  text.bytes += static_cast<char>(options.rdb_version);
  text.bytes += static_cast<char>(options.rdb_version >> 8);
  return text.sealed();
}

}  // namespace sepal::test
