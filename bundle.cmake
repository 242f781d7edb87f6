# `cmake --install` creates a relocatable folder: bin/, lib/ with the shared libraries that a
# machine with a driver, CUDA and cuDNN may lack, and the files that programs and tests read. Called
# by tools/bundle.sh.
get_property(targets DIRECTORY tests PROPERTY BUILDSYSTEM_TARGETS)
list(FILTER targets INCLUDE REGEX "_test$")
list(FILTER targets EXCLUDE REGEX "^(house|fault|commands)_test$")  # test the tree and the disk
list(APPEND targets trainer)
add_custom_target(bundled DEPENDS ${targets})

# Library search path: these folders in the build tree, lib/ in a bundle. CMake's own rewriting of
# the path would leave an empty entry in the build tree, which means the current folder.
set(search_path ${CMAKE_BUILD_RPATH} $<TARGET_FILE_DIR:bellows_spinning>)
if(BELLOWS_SANITIZE MATCHES thread)  # of Archer, by which TSan understands libomp's barriers
  get_filename_component(libomp ${OpenMP_omp_LIBRARY} DIRECTORY)
  list(APPEND search_path ${libomp})
endif()
if(BELLOWS_ONEDNN)
  list(APPEND search_path $<TARGET_FILE_DIR:DNNL::dnnl>)
endif()
list(APPEND search_path "\$ORIGIN/../lib")  # reserves room for the bundle's path
set_target_properties(${targets} PROPERTIES INSTALL_RPATH "${search_path}"
                      BUILD_WITH_INSTALL_RPATH ON)
install(TARGETS ${targets} RUNTIME DESTINATION bin)
install(TARGETS bellows_spinning LIBRARY DESTINATION lib)
foreach(target ${targets})
  install(CODE "file(RPATH_CHANGE FILE \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/bin/${target}\"
    OLD_RPATH \"$<JOIN:${search_path},:>\" NEW_RPATH \"\$ORIGIN/../lib\")")
endforeach()
if(BELLOWS_ONEDNN)
  install(FILES $<TARGET_SONAME_FILE:DNNL::dnnl> TYPE LIB)
endif()
install(FILES $<TARGET_FILE:fmt::fmt> TYPE LIB RENAME $<TARGET_SONAME_FILE_NAME:fmt::fmt>)
# oneDNN and Bellows share libgomp's thread pool, so the bundle contains libgomp too.
execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=libgomp.so.1 OUTPUT_VARIABLE gomp
                OUTPUT_STRIP_TRAILING_WHITESPACE)
file(REAL_PATH ${gomp} gomp_file)
install(FILES ${gomp_file} TYPE LIB RENAME libgomp.so.1)
install(FILES $<TARGET_FILE:gloo> TYPE LIB RENAME $<TARGET_SONAME_FILE_NAME:gloo>)
foreach(library file IN ZIP_LISTS gloo_needs gloo_libraries)
  file(REAL_PATH ${file} file)
  install(FILES ${file} TYPE LIB RENAME ${library})
endforeach()

install(DIRECTORY configs DESTINATION .)
install(DIRECTORY peers DESTINATION . FILES_MATCHING PATTERN "*.py")
install(DIRECTORY tests/oracle tests/vendor DESTINATION tests
        FILES_MATCHING REGEX "\\.safetensors$|/h200[^/]*\\.(json|txt)$")
# They need no search path, and with CMake's own theirs would end in an empty entry.
set_target_properties(fake_nvml fake_driver planted PROPERTIES BUILD_WITH_INSTALL_RPATH ON)
install(TARGETS fake_nvml fake_driver planted LIBRARY DESTINATION tests/trainer NAMELINK_SKIP)
foreach(header ${RUNTIME_HEADERS})  # tests compare them with the embedded text
  get_filename_component(header_folder ${header} DIRECTORY)
  install(FILES ${header} DESTINATION ${header_folder})
endforeach()
install(FILES docs/seeds.md DESTINATION docs)
# A bundle has no git history, so a file records the commit.
install(CODE "execute_process(COMMAND git -C ${PROJECT_SOURCE_DIR} describe --always --dirty
  --abbrev=12 OUTPUT_FILE \${CMAKE_INSTALL_PREFIX}/VERSION ERROR_QUIET)")
install(PROGRAMS tools/run_bundled.sh DESTINATION . RENAME run)
install(PROGRAMS tools/gpu_check.sh tools/gpu_check.py tools/gpu_steps.py DESTINATION tools)

# Only a machine with a GPU needs a bundle.
if(TARGET bellows_cuda)
  set(bundle ${PROJECT_BINARY_DIR}/bundle_test)
  add_test(NAME bundle_install COMMAND ${CMAKE_COMMAND} --install ${PROJECT_BINARY_DIR} --strip
                                       --prefix ${bundle})
  add_test(NAME bundle_brings_all_that_it_needs COMMAND tools/check_bundle.sh ${bundle}
           WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  add_test(NAME bundle_packs_small COMMAND tools/pack_bundle.sh ${bundle}
           WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(bundle_install PROPERTIES FIXTURES_SETUP bundle LABELS bundle)
  set_tests_properties(bundle_brings_all_that_it_needs bundle_packs_small PROPERTIES
                       FIXTURES_REQUIRED bundle LABELS bundle PROCESSORS 2)
  # Not at once: a check links to the files, which a pack would report as changed.
  set_tests_properties(bundle_packs_small PROPERTIES DEPENDS bundle_brings_all_that_it_needs)
endif()
