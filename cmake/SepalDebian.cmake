# Run by cpack when the files of the package are in place, before it packs them: what Debian's policy asks for beyond
# `cmake --install`.
set(root ${CPACK_TEMPORARY_INSTALL_DIRECTORY})
set(documents ${root}/usr/share/doc/sepal)
find_program(GZIP gzip REQUIRED)

file(RENAME ${documents}/LICENSE ${documents}/copyright)
# Debian's zsh looks there.
file(RENAME ${root}/usr/share/zsh/site-functions ${root}/usr/share/zsh/vendor-completions)

# SOURCE_DATE_EPOCH, where it is set, decides the date: then the same sources give the same package.
string(TIMESTAMP now "%a, %d %b %Y %H:%M:%S +0000" UTC)
file(WRITE ${documents}/changelog.Debian "sepal (${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}) unstable; urgency=medium

  * A package made by cpack; CHANGELOG.md says what is new.

 -- ${CPACK_PACKAGE_CONTACT}  ${now}
")
file(COPY_FILE ${documents}/CHANGELOG.md ${documents}/changelog)
execute_process(COMMAND ${GZIP} -9n ${documents}/changelog.Debian ${documents}/changelog
                        ${root}/usr/share/man/man8/sepald.8 ${root}/usr/share/man/man5/sepald.toml.5 ${root}/usr/share/man/man1/sepal.1
                COMMAND_ERROR_IS_FATAL ANY)
