#include "settings/suggestion.hpp"

#include <sepal/base/nearest_name.hpp>

namespace sepal::settings {

const Setting* nearest_setting(std::string_view name) {
  NearestName nearest(name);
  const Setting* meant = nullptr;
  for (const Setting& setting : all_settings()) {
    for (const std::string_view known : {setting.key, setting.parameter, setting.redis_name})
      if (!known.empty() && nearest.is_nearer(known)) meant = &setting;
  }
  return meant;
}

}  // namespace sepal::settings
