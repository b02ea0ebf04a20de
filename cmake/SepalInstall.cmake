# `cmake --install`. debian/rules makes the package of what it installs.
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
# `cmake --install` does not build what it installs: scripts/build and debian/rules build this target.
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
