#!/bin/sh
# Creates what docker-compose.yml needs: passwords and the API key in secrets/, and MARKETPLACE_URL in .env.
# Run it in the folder of docker-compose.yml. It keeps what exists, so you can run it again.
#
#   sh scripts/compose-setup.sh https://market.example                # asks for the API key
#   sh scripts/compose-setup.sh https://market.example < key.txt      # reads it from a file
set -eu
umask 077

fail() {
  printf 'error: %s\n' "$1" >&2
  exit 2
}

url=${1:-}
case $url in
http://?* | https://?*) ;;
*) fail 'give the address of the marketplace: sh scripts/compose-setup.sh https://market.example' ;;
esac
[ -f docker-compose.yml ] || fail 'there is no docker-compose.yml here: run this in its folder'

# setting NAME: its value in .env.
setting() { [ ! -f .env ] || sed -n "s|^$1=||p" .env | tail -n 1 | tr -d '\r"' | tr -d "'"; }

# A checkout that ran without containers has its own settings.
kept=$(setting MARKETPLACE_URL)
case ${kept%/} in
'' | "${url%/}") ;;
*) fail "MARKETPLACE_URL in .env is $kept, not $url: give that address, or change .env" ;;
esac
case $(setting MARKETPLACE_API_KEY_FILE) in
'' | secrets/* | ./secrets/*) ;;
*) fail "MARKETPLACE_API_KEY_FILE in .env names a file outside of secrets, which containers may not read: remove that line; this script asks for the key" ;;
esac

random() { od -An -N24 -tx1 /dev/urandom | tr -d ' \n'; }

# make NAME: writes stdin to secrets/NAME, unless the file has contents.
make() {
  if [ -s "secrets/$1" ]; then
    echo "kept secrets/$1"
  else
    cat >"secrets/$1"
    echo "wrote secrets/$1"
  fi
}

mkdir -p secrets/sellers secrets/feeds
if [ ! -s secrets/marketplace_api_key ]; then
  key=
  if [ -t 0 ]; then
    printf 'API key of %s: ' "$url" >&2
    trap 'stty echo' EXIT
    stty -echo
    IFS= read -r key || true
    stty echo
    echo >&2
  else
    IFS= read -r key || true
  fi
  [ -n "$key" ] || fail 'the API key is empty'
  printf '%s' "$key" | make marketplace_api_key
fi
random | make postgres_password
printf 'postgresql://mirror:%s@postgres:5432/mirror' "$(cat secrets/postgres_password)" | make database_url
printf 'requirepass %s\n' "$(random)" | make redis.conf
sed -n 's|^requirepass \(.*\)|redis://:\1@redis:6379|p' secrets/redis.conf | make redis_url
# The folder itself is private; the containers' users must read its files.
chmod 700 secrets
chmod -R a+rX secrets/*

touch .env
if [ -n "$(setting MARKETPLACE_URL)$(setting SELLERS_FILE)" ]; then
  echo 'kept the marketplace of .env'
else
  echo "MARKETPLACE_URL=$url" >>.env
  echo 'wrote MARKETPLACE_URL to .env'
fi
