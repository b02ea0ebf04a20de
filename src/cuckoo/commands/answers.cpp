#include <sepal/cuckoo/commands/answers.hpp>

namespace sepal::cuckoo {
namespace {

Told told_of(const Filter& filter) {
  const Options& options = filter.plan().options;
  return {.bytes = filter.byte_count(),
          .buckets = bucket_count(options),
          .layers = filter.layer_count(),
          .items = filter.item_count(),
          .removed = filter.removed_count(),
          .bucket_size = options.bucket_size,
          .expansion = options.expansion,
          .iteration_max = options.iteration_max};
}

Told told_of(const RedisFilter& filter) {
  const RedisHeader& header = filter.header();
  return {.bytes = header.told_bytes(),
          .buckets = header.bucket_count,
          .layers = header.layer_count,
          .items = header.item_count,
          .removed = header.delete_count,
          .bucket_size = header.bucket_slots,
          .expansion = header.expansion,
          .iteration_max = header.kicks_max};
}

}  // namespace

Told told_of(const Found& found) {
  return found.own != nullptr ? told_of(*found.own) : told_of(*found.of_redis);
}

std::string debug_line(const Told& told) {
  return "bktsize:" + std::to_string(told.bucket_size) + " buckets:" + std::to_string(told.buckets) +
         " items:" + std::to_string(told.items) + " deletes:" + std::to_string(told.removed) +
         " filters:" + std::to_string(told.layers) + " max_iterations:" + std::to_string(told.iteration_max) +
         " expansion:" + std::to_string(told.expansion);
}

}  // namespace sepal::cuckoo
