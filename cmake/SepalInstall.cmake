# `cmake --install`, and the package that `cpack` makes in the build folder.
#
# The paths in the configuration and in the service follow the prefix of the installation, which may differ from the one
# at the configuration. So SepalInstallConfig.cmake writes these files when they are installed.
include(GNUInstallDirs)

set(SEPAL_INSTALLED sepald sepal)
install(TARGETS ${SEPAL_INSTALLED})
if(TARGET sepal_server_module)
  list(APPEND SEPAL_INSTALLED sepal_server_module)
  # A server loads no module that cannot be executed. Debian's CMake takes this right from libraries.
  install(TARGETS sepal_server_module LIBRARY DESTINATION lib/sepal
    PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
endif()
# Neither `cmake --install` nor `cpack` builds what it installs: scripts/build and scripts/package build this target.
add_custom_target(installed DEPENDS ${SEPAL_INSTALLED})
install(FILES docs/man/sepald.toml.5 DESTINATION ${CMAKE_INSTALL_MANDIR}/man5)
install(FILES docs/man/sepald.8 DESTINATION ${CMAKE_INSTALL_MANDIR}/man8)
install(FILES docs/man/sepal.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
foreach(program sepald sepal)
  set(completion config/completions/${program})
  install(FILES ${completion}.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME ${program})
  install(FILES ${completion}.zsh DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions RENAME _${program})
  install(FILES ${completion}.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endforeach()
install(FILES config/sepal.sysusers DESTINATION lib/sysusers.d RENAME sepal.conf)
# README.md links to the others.
install(FILES LICENSE README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs examples docker DESTINATION ${CMAKE_INSTALL_DOCDIR} USE_SOURCE_PERMISSIONS PATTERN docs/man EXCLUDE)
install(CODE "set(SEPAL_SOURCE \"${PROJECT_SOURCE_DIR}\")
set(SEPAL_BINDIR \"${CMAKE_INSTALL_BINDIR}\")")
install(SCRIPT ${PROJECT_SOURCE_DIR}/cmake/SepalInstallConfig.cmake)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "The Sepal authors <sepal@packages.invalid>" CACHE STRING "The maintainer of the package")
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION} CACHE STRING "The version of the package")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Bloom filter server that speaks the Redis protocol")
set(CPACK_PACKAGE_DESCRIPTION "Sepal tells clients of the Redis protocol whether it has seen an item,
from Bloom filters of a hundred to ten billion items. It has RedisBloom's
commands, uses all cores, and a crash of the process loses no answered
change.
.
This package has the server sepald, its service, and the tools sepal.")
set(CPACK_SET_DESTDIR ON)             # the configuration is outside the prefix
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SECTION database)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS adduser)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS procps)  # kill and pkill: a reload of the service
set(CPACK_DEBIAN_PACKAGE_SUGGESTS redis-tools)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA)
foreach(file conffiles postinst prerm postrm)
  list(APPEND CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/config/debian/${file})
endforeach()
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/SepalDebian.cmake)
include(CPack)
