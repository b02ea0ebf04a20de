#include <sepal/tls/memory.hpp>

#include <cstddef>
#include <cstdlib>
#include <new>
#include <openssl/crypto.h>

namespace sepal::tls {
namespace {

// Whether it is worth to try again. The handler of operator new throws when its reserve is used up.
bool more_memory() {
  const std::new_handler handler = std::get_new_handler();
  if (handler == nullptr) return false;
  try {
    handler();
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void* allocate(std::size_t byte_count, const char* /*file*/, int /*line*/) {
  for (;;)
    if (void* const memory = std::malloc(byte_count); memory != nullptr || byte_count == 0 || !more_memory())
      return memory;
}

void* reallocate(void* memory, std::size_t byte_count, const char* /*file*/, int /*line*/) {
  for (;;)
    if (void* const moved = std::realloc(memory, byte_count);
        moved != nullptr || byte_count == 0 || !more_memory())
      return moved;
}

void release(void* memory, const char* /*file*/, int /*line*/) {
  std::free(memory);
}

}  // namespace

void use_memory_reserve() {
  // It refuses where something in the process, such as a library that was preloaded, has used it already.
  // Then it keeps to the system's memory.
  static_cast<void>(CRYPTO_set_mem_functions(allocate, reallocate, release));
}

}  // namespace sepal::tls
