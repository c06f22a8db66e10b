# The hooks as an image: requirements checked by hash in one stage, no installer in the other.
FROM python:3.13-slim AS build
WORKDIR /app
COPY requirements.txt .
RUN python -m venv /venv && /venv/bin/pip install --no-cache-dir --require-hashes -r requirements.txt

FROM python:3.13-slim
WORKDIR /app
COPY --from=build /venv /venv
COPY hooks hooks
# For `python -m hooks plan`: which controllers there are, and which kinds.
COPY metacontroller metacontroller
COPY deploy/crds deploy/crds
ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["/venv/bin/python", "-m", "hooks"]
CMD ["serve"]
